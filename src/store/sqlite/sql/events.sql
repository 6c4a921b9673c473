-- name: look an event up
SELECT consumer, event_id, source, event_type, state, status, occurred_at, processed_at
FROM processed_events
WHERE consumer IN (SELECT value FROM json_each(?1)) AND event_id = ?2
ORDER BY consumer
