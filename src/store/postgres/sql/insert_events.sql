-- insert_events
INSERT INTO hooklatch.processed_events
    (consumer, event_id, source, event_type, state, status, fingerprint, occurred_at, processed_at)
SELECT new.consumer, new.event_id, new.source, new.event_type, new.state, new.status, new.fingerprint,
       new.occurred_at, now()
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::bytea[],
            $8::timestamptz[])
    AS new (consumer, event_id, source, event_type, state, status, fingerprint, occurred_at)
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING consumer, event_id
