-- name: insert event keys
-- `WHERE true` keeps ON CONFLICT from being read as a join condition.
INSERT INTO processed_events
    (consumer, event_id, source, event_type, state, status, fingerprint, occurred_at, processed_at)
SELECT value ->> 'consumer', value ->> 'event_id', value ->> 'source', value ->> 'event_type',
    value ->> 'state', value ->> 'status', unhex(value ->> 'fingerprint'), value ->> 'occurred_at', ?2
FROM json_each(?1)
WHERE true
ON CONFLICT (event_id, consumer) DO NOTHING
RETURNING consumer, event_id
