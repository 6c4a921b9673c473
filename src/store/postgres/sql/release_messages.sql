-- release_messages
-- Gives back what was claimed and not tried.
UPDATE hooklatch.outbox AS message
SET state = CASE WHEN message.attempts = 1 THEN 'new' ELSE 'retry' END, attempts = message.attempts - 1,
    lease_token = NULL, leased_until = NULL, next_attempt_at = now()
FROM unnest($1::uuid[], $2::uuid[]) AS held (id, token)
WHERE message.id = held.id AND message.lease_token = held.token
