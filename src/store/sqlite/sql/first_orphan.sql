-- name: first orphan
-- A message that waits although no earlier one of its aggregate is left, if there is one.
SELECT sequence FROM outbox
WHERE destination = ?1 AND state = 'parked' AND state IN ('new', 'retry', 'parked', 'blocking')
    AND NOT EXISTS (
        SELECT 1 FROM outbox AS earlier
        WHERE earlier.destination = ?1 AND earlier.aggregate_id = outbox.aggregate_id
            AND earlier.aggregate_id IS NOT NULL AND earlier.sequence < outbox.sequence
            AND earlier.state IN ('new', 'retry', 'parked', 'blocking')
    )
LIMIT 1
