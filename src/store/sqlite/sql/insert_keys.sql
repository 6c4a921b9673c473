-- name: insert idempotency keys
INSERT INTO idempotency_keys (source, key, fingerprint, created_at)
SELECT value ->> 0, value ->> 1, unhex(value ->> 2), ?2
FROM json_each(?1)
WHERE true
ON CONFLICT (source, key) DO NOTHING
RETURNING source, key
