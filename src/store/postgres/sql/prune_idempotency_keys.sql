-- prune_idempotency_keys
-- SKIP LOCKED: replicas prune side by side, each other rows.
DELETE FROM hooklatch.idempotency_keys
WHERE (source, key) IN (
    SELECT source, key FROM hooklatch.idempotency_keys
    WHERE created_at < now() - make_interval(secs => $1)
    ORDER BY created_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
