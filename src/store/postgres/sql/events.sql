-- events
SELECT consumer, event_id, source, event_type, state, status, occurred_at, processed_at
FROM hooklatch.processed_events
WHERE consumer = ANY ($1) AND event_id = $2
ORDER BY consumer
