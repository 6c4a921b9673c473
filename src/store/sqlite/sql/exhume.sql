-- name: remove the dead letters of applied events
DELETE FROM dead_letters
WHERE (consumer, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
