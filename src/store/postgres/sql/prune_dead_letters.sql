-- prune_dead_letters
-- SKIP LOCKED: replicas prune side by side, each other rows.
DELETE FROM hooklatch.dead_letters
WHERE (id) IN (
    SELECT id FROM hooklatch.dead_letters
    WHERE died_at < now() - make_interval(secs => $1)
    ORDER BY died_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
