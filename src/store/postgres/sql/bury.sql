-- bury
INSERT INTO hooklatch.dead_letters AS letter
    (id, consumer, event_id, source, event_type, cause, reason, attempts, target, headers, body,
     received_at, died_at)
SELECT new.id, new.consumer, new.event_id, new.source, new.event_type, new.cause, new.reason, 1, new.target,
       new.headers::json, new.body, new.received_at, now()
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::bytea[], $11::timestamptz[])
    AS new (id, consumer, event_id, source, event_type, cause, reason, target, headers, body, received_at)
ON CONFLICT (consumer, event_id) DO UPDATE
SET source = excluded.source, event_type = excluded.event_type, cause = excluded.cause,
    reason = excluded.reason, attempts = letter.attempts + excluded.attempts, target = excluded.target,
    headers = excluded.headers, body = excluded.body, received_at = excluded.received_at,
    died_at = excluded.died_at
RETURNING 1
