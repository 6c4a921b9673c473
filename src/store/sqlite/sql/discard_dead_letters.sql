-- name: discard dead letters
DELETE FROM dead_letters WHERE id IN (SELECT value FROM json_each(?1))
