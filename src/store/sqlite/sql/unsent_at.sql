-- name: unsent at
-- When the message was written that ?2 unsent ones of its destination are older than. Reads the index only,
-- and of the table one row.
--
-- Differs from PostgreSQL, where the index is walked no further than that message: here a plain INSERT
-- leaves next_attempt_at at zero, so the index is not in the order of writing.
SELECT created_at FROM outbox
WHERE sequence = (
    SELECT sequence FROM outbox
    WHERE destination = ?1 AND state IN ('new', 'retry', 'parked')
        AND state IN ('new', 'retry', 'parked', 'blocking')
    ORDER BY sequence LIMIT 1 OFFSET ?2
)
