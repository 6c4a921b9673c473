-- name: insert event keys
INSERT INTO processed_events
    (processed_at, consumer, event_id, source, event_type, state, status, fingerprint, occurred_at)
SELECT ?, new.* FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?)) AS new
-- Also keeps ON CONFLICT from being read as a join condition.
WHERE column1 IS NOT NULL
ON CONFLICT (event_id, consumer) DO NOTHING
RETURNING consumer, event_id
