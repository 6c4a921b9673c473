-- name: prune dead_letters
DELETE FROM dead_letters
WHERE (id) IN (SELECT id FROM dead_letters WHERE died_at < ?1 ORDER BY died_at LIMIT ?2)
