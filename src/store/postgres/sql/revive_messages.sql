-- revive_messages
-- Messages that were given up or wait for their next attempt are tried again at once. One that is being
-- tried stays as it is.
UPDATE hooklatch.outbox AS message
SET state = 'new', attempts = 0, next_attempt_at = now(), dead_at = NULL
WHERE message.id = ANY ($1) AND message.state IN ('new', 'retry', 'dead', 'blocking')
  AND (message.lease_token IS NULL OR message.leased_until <= now())
RETURNING message.id
