-- name: count prunable outbox
SELECT count(*) FROM outbox WHERE state = 'sent' AND sent_at < ?1
