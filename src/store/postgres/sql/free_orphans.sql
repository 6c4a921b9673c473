-- free_orphans
-- Messages that wait although no earlier one of their aggregate is left: it was deleted by hand. The next
-- claim judges them anew, so that freeing one too many changes nothing.
UPDATE hooklatch.outbox AS message
SET state = CASE WHEN message.attempts = 0 THEN 'new' ELSE 'retry' END
WHERE message.destination = $1 AND message.state = 'parked'
  AND NOT EXISTS (
      SELECT FROM hooklatch.outbox AS earlier
      WHERE earlier.destination = $1 AND earlier.aggregate_id = message.aggregate_id
        AND earlier.sequence < message.sequence
        AND earlier.state IN ('new', 'retry', 'parked', 'blocking')
      OFFSET 0
  )
