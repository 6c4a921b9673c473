-- reject_events
-- What the handler refused, with its dead letters; nothing of an event that has meanwhile come in elsewhere.
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::smallint[], $7::bytea[], $8::timestamptz[],
                         $9::uuid[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bytea[],
                         $15::timestamptz[])
        AS new (event_id, event_type, state, status, fingerprint, occurred_at,
                letter, cause, reason, target, headers, body, received_at)
), inserted AS (
    INSERT INTO hooklatch.processed_events
        (consumer, event_id, source, event_type, state, status, fingerprint, occurred_at, processed_at)
    SELECT $1, new.event_id, $2, new.event_type, new.state, new.status, new.fingerprint, new.occurred_at, now()
    FROM new
    ORDER BY new.event_id COLLATE "C"
    ON CONFLICT (event_id, consumer) DO NOTHING
    RETURNING event_id
), buried AS (
    INSERT INTO hooklatch.dead_letters AS letter
        (id, consumer, event_id, source, event_type, cause, reason, attempts, target, headers, body,
         received_at, died_at)
    SELECT new.letter, $1, new.event_id, $2, new.event_type, new.cause, new.reason, 1, new.target,
           new.headers::json, new.body, new.received_at, now()
    FROM new
    WHERE new.event_id IN (SELECT event_id FROM inserted)
    ON CONFLICT (consumer, event_id) DO UPDATE
    SET source = excluded.source, event_type = excluded.event_type, cause = excluded.cause,
        reason = excluded.reason, attempts = letter.attempts + excluded.attempts, target = excluded.target,
        headers = excluded.headers, body = excluded.body, received_at = excluded.received_at,
        died_at = excluded.died_at
)
SELECT event_id FROM inserted
