-- name: prune idempotency_keys
DELETE FROM idempotency_keys
WHERE (source, key) IN (SELECT source, key FROM idempotency_keys WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)
