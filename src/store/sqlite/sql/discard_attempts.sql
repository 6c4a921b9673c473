-- name: discard attempts
DELETE FROM outbox_attempts WHERE message_id IN (SELECT value FROM json_each(?1))
