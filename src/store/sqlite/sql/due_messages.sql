-- name: due messages
-- Messages never tried and messages to try again, each up to a limit of its own. One message of an
-- aggregate at a time: what waits for an earlier one is parked.
--
-- A partial index is used only where its own condition is written out.
WITH due AS (
    SELECT * FROM (
        SELECT sequence, aggregate_id, false AS expired FROM outbox
        WHERE destination = ?1 AND state = 'new' AND state IN ('new', 'retry', 'parked', 'blocking')
            AND next_attempt_at <= ?4
        ORDER BY next_attempt_at, sequence
        LIMIT ?2
    )
    UNION ALL
    SELECT * FROM (
        SELECT sequence, aggregate_id, lease_token IS NOT NULL AS expired FROM outbox
        WHERE destination = ?1 AND state = 'retry' AND state IN ('new', 'retry', 'parked', 'blocking')
            AND next_attempt_at <= ?4
        ORDER BY next_attempt_at, sequence
        LIMIT ?3
    )
)
SELECT sequence, expired,
    aggregate_id IS NOT NULL AND EXISTS (
        SELECT 1 FROM outbox AS earlier
        WHERE earlier.destination = ?1 AND earlier.aggregate_id = due.aggregate_id
            AND earlier.aggregate_id IS NOT NULL AND earlier.sequence < due.sequence
            AND earlier.state IN ('new', 'retry', 'parked', 'blocking')
    ) AS waits,
    -- A later one is on its way: this one was dead.
    aggregate_id IS NOT NULL AND EXISTS (
        SELECT 1 FROM outbox AS other
        WHERE other.destination = ?1 AND other.aggregate_id = due.aggregate_id
            AND other.aggregate_id IS NOT NULL
            AND other.lease_token IS NOT NULL AND other.leased_until > ?4
    ) AS overtaken
FROM due
