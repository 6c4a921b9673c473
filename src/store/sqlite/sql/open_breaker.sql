-- name: open a breaker
INSERT INTO destinations (name, open_until, open_reason) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET open_until = excluded.open_until, open_reason = excluded.open_reason
