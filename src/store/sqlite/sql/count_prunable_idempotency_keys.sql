-- name: count prunable idempotency_keys
SELECT count(*) FROM idempotency_keys WHERE created_at < ?1
