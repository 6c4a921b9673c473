-- prune_outbox_sent
-- Only what was sent; SKIP LOCKED: replicas prune side by side, each other rows.
WITH old AS MATERIALIZED (
    SELECT id FROM hooklatch.outbox
    WHERE state = 'sent' AND sent_at < now() - make_interval(secs => $1)
    ORDER BY sent_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), attempts AS (
    DELETE FROM hooklatch.outbox_attempts WHERE message_id IN (SELECT id FROM old)
)
DELETE FROM hooklatch.outbox WHERE id IN (SELECT id FROM old)
