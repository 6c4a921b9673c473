-- name: free orphans
-- Messages that wait although no earlier one of their aggregate is left: it was deleted by hand.
UPDATE outbox SET state = iif(attempts = 0, 'new', 'retry')
WHERE destination = ?1 AND state = 'parked' AND state IN ('new', 'retry', 'parked', 'blocking')
    AND NOT EXISTS (
        SELECT 1 FROM outbox AS earlier
        WHERE earlier.destination = ?1 AND earlier.aggregate_id = outbox.aggregate_id
            AND earlier.aggregate_id IS NOT NULL AND earlier.sequence < outbox.sequence
            AND earlier.state IN ('new', 'retry', 'parked', 'blocking')
    )
