-- name: count prunable deliveries
-- Ids begin with the time: ranges of time are ranges of the primary key.
SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE delivery_id < ?1 LIMIT ?2)
