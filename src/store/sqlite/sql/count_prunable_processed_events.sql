-- name: count prunable processed_events
SELECT count(*) FROM processed_events WHERE processed_at < ?1
