-- record_deliveries
INSERT INTO hooklatch.deliveries
    (delivery_id, ordinal, received_at, source, event_id, event_type, idempotency_key, outcome, status,
     duration_us, body_bytes, peer, reason, headers)
SELECT * FROM unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::text[], $5::text[], $6::text[],
                     $7::text[], $8::text[], $9::smallint[], $10::bigint[], $11::bigint[], $12::text[],
                     $13::text[], $14::text[])
ON CONFLICT (delivery_id, ordinal) DO NOTHING
