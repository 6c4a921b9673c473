-- name: outbox messages
-- Newest last. The payload is read for one message only.
SELECT id, destination, aggregate_id, sequence, event_type, content_type, headers, traceparent, hops, created_at,
    state, next_attempt_at, attempts, leased_until, sent_at, dead_at, last_status, last_error, answer_bytes,
    length(CAST(payload AS BLOB)) AS payload_bytes
FROM outbox
WHERE (?1 IS NULL OR destination = ?1)
    AND (?2 IS NULL OR state IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR aggregate_id = ?3)
    AND (?4 IS NULL OR id IN (SELECT value FROM json_each(?4)))
    AND (?5 IS NULL OR sequence > ?5)
ORDER BY sequence
LIMIT ?6
