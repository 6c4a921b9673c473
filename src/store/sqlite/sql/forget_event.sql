-- name: forget an event
DELETE FROM processed_events WHERE consumer = ?1 AND event_id = ?2
