-- open_breaker
INSERT INTO hooklatch.destinations (name, open_until, open_reason)
VALUES ($1, now() + make_interval(secs => $2), $3)
ON CONFLICT (name) DO UPDATE SET open_until = excluded.open_until, open_reason = excluded.open_reason
