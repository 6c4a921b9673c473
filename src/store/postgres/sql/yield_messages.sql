-- yield_messages
-- Gives back what was just claimed beside another message of its aggregate that is on its way. A claim sees
-- what had been committed when it began: of two at the same time one may take a message, and the other an
-- earlier one that was committed or revived meanwhile. Whoever commits last sees both here.
UPDATE hooklatch.outbox AS message
SET state = CASE WHEN message.attempts = 1 THEN 'new' ELSE 'retry' END, attempts = message.attempts - 1,
    lease_token = NULL, leased_until = NULL, next_attempt_at = now()
WHERE message.id = ANY ($1) AND message.lease_token = $2
  AND EXISTS (
      SELECT FROM hooklatch.outbox AS other
      WHERE other.destination = message.destination AND other.aggregate_id = message.aggregate_id
        AND other.id <> message.id AND other.lease_token IS NOT NULL AND other.leased_until > now()
      OFFSET 0
  )
RETURNING message.id
