-- name: close a breaker
UPDATE destinations SET open_until = NULL, open_reason = NULL WHERE name = ?1 AND open_until IS NOT NULL
