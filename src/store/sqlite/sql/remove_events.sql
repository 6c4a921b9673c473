-- name: remove events that do not count any more
DELETE FROM processed_events
WHERE (consumer, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
    AND (processed_at <= ?2 OR state = 'rejected')
