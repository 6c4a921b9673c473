-- insert_events
-- What events of one kind share comes once a kind; a batch of one kind names none. The rows that were
-- inserted are told only when some were not: nearly always all are fresh.
WITH inserted AS (
    INSERT INTO hooklatch.processed_events
        (consumer, event_id, source, event_type, state, status, fingerprint, occurred_at, processed_at)
    SELECT ($1::text[])[coalesce(new.kind, 1)], new.event_id, ($2::text[])[coalesce(new.kind, 1)],
           ($3::text[])[coalesce(new.kind, 1)], ($4::text[])[coalesce(new.kind, 1)],
           ($5::smallint[])[coalesce(new.kind, 1)], new.fingerprint, new.occurred_at, now()
    FROM unnest($6::text[], $7::integer[], $8::bytea[], $9::timestamptz[])
        AS new (event_id, kind, fingerprint, occurred_at)
    ON CONFLICT (event_id, consumer) DO NOTHING
    RETURNING consumer, event_id
)
SELECT count(*) AS inserted,
       CASE WHEN count(*) < cardinality($6) THEN array_agg(consumer) END AS consumers,
       CASE WHEN count(*) < cardinality($6) THEN array_agg(event_id) END AS event_ids
FROM inserted
