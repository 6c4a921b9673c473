-- name: prune attempts
-- Of the messages that go next.
DELETE FROM outbox_attempts
WHERE message_id IN (SELECT id FROM outbox WHERE state = 'sent' AND sent_at < ?1 ORDER BY sent_at LIMIT ?2)
