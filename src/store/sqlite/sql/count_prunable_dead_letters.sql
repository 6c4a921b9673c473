-- name: count prunable dead_letters
SELECT count(*) FROM dead_letters WHERE died_at < ?1
