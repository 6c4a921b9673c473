-- name: count prunable processed_events
SELECT count(*) FROM (SELECT 1 FROM processed_events WHERE processed_at < ?1 LIMIT ?2)
