-- name: destination states
SELECT name, paused_at, pause_reason, open_until, open_reason FROM destinations ORDER BY name
