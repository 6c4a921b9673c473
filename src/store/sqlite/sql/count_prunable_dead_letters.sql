-- name: count prunable dead_letters
SELECT count(*) FROM (SELECT 1 FROM dead_letters WHERE died_at < ?1 LIMIT ?2)
