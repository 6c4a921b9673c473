-- name: prune outbox
-- Only what was sent.
DELETE FROM outbox
WHERE sequence IN (SELECT sequence FROM outbox WHERE state = 'sent' AND sent_at < ?1 ORDER BY sent_at LIMIT ?2)
