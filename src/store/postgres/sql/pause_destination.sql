-- pause_destination
INSERT INTO hooklatch.destinations (name, paused_at, pause_reason)
VALUES ($1, now(), $2)
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, pause_reason = excluded.pause_reason
