-- name: forget idempotency keys
DELETE FROM idempotency_keys
WHERE (source, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
