-- prune_processed_events
-- SKIP LOCKED: replicas prune side by side, each other rows.
DELETE FROM hooklatch.processed_events
WHERE (consumer, event_id) IN (
    SELECT consumer, event_id FROM hooklatch.processed_events
    WHERE processed_at < now() - make_interval(secs => $1)
    ORDER BY processed_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
