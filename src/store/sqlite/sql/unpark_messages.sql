-- name: unpark messages
-- Of each of these aggregates, the first message that waits may be claimed.
UPDATE outbox SET state = iif(attempts = 0, 'new', 'retry')
WHERE sequence IN (
    SELECT (
        SELECT min(sequence) FROM outbox AS parked
        WHERE parked.destination = freed.value ->> 0 AND parked.aggregate_id = freed.value ->> 1
            AND parked.aggregate_id IS NOT NULL AND parked.state = 'parked'
            AND parked.state IN ('new', 'retry', 'parked', 'blocking')
    )
    FROM json_each(?1) AS freed
)
RETURNING destination
