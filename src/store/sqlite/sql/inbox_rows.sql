-- name: count the inbox
SELECT count(*) FROM processed_events
