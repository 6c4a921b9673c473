-- name: count prunable idempotency_keys
SELECT count(*) FROM (SELECT 1 FROM idempotency_keys WHERE created_at < ?1 LIMIT ?2)
