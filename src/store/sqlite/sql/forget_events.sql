-- name: forget event keys
DELETE FROM processed_events
WHERE (consumer, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
