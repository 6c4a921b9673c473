-- name: prune processed_events
DELETE FROM processed_events
WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM processed_events WHERE processed_at < ?1 ORDER BY processed_at LIMIT ?2)
