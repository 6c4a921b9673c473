-- name: claim messages
UPDATE outbox
SET state = 'retry', attempts = attempts + 1, lease_token = ?2, leased_until = ?3, next_attempt_at = ?3
WHERE sequence IN (SELECT value FROM json_each(?1))
RETURNING id, aggregate_id, sequence, event_type, content_type, headers, CAST(payload AS BLOB) AS payload,
    traceparent, hops, created_at, attempts
