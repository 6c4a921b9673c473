-- prune_deliveries
-- Ids begin with the milliseconds since 1970; what is kept for longer than that is kept.
-- SKIP LOCKED: replicas prune side by side, each other rows.
DELETE FROM hooklatch.deliveries
WHERE (delivery_id, ordinal) IN (
    SELECT delivery_id, ordinal FROM hooklatch.deliveries
    WHERE delivery_id < (lpad(to_hex(greatest((extract(epoch FROM now() - make_interval(secs => $1)) * 1000)::bigint, 0)), 12, '0') || repeat('0', 20))::uuid
    ORDER BY delivery_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
