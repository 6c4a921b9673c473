-- destination_states
SELECT name, paused_at, pause_reason,
       greatest(extract(epoch FROM open_until - now()), 0)::float8 AS open_for, open_reason
FROM hooklatch.destinations
ORDER BY name
