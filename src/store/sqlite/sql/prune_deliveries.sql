-- name: prune deliveries
-- Ids begin with the time: ranges of time are ranges of the primary key.
DELETE FROM deliveries
WHERE (delivery_id, ordinal) IN (SELECT delivery_id, ordinal FROM deliveries WHERE delivery_id < ?1 ORDER BY delivery_id LIMIT ?2)
