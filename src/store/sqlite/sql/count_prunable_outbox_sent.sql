-- name: count prunable outbox
SELECT count(*) FROM (SELECT 1 FROM outbox WHERE state = 'sent' AND sent_at < ?1 LIMIT ?2)
