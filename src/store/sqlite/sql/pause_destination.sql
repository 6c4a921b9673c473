-- name: pause a destination
INSERT INTO destinations (name, paused_at, pause_reason) VALUES (?1, ?3, ?2)
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, pause_reason = excluded.pause_reason
