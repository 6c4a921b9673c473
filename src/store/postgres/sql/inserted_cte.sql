hooklatch_inserted AS (
    INSERT INTO hooklatch.processed_events
        (consumer, event_id, source, event_type, state, status, fingerprint, occurred_at, processed_at)
    SELECT $10::text, new.event_id, $8::text, ($11::text[])[coalesce(new.kind, 1)], $13::text, $14::smallint,
           new.fingerprint, new.occurred_at, now()
    FROM unnest($1::text[], $12::integer[], $15::bytea[], $16::timestamptz[])
        AS new (event_id, kind, fingerprint, occurred_at)
    ORDER BY new.event_id COLLATE "C"
    ON CONFLICT (event_id, consumer) DO NOTHING
    RETURNING consumer, event_id
)
