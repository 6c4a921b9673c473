-- revive_messages
-- Messages that were given up or wait for their next attempt are tried again at once. One that is being
-- tried stays as it is; whoever let its lease end has no say in it any more.
--
-- The first message of the aggregate that has not left is locked with them: a claim of it that is under way
-- is waited for, and then seen by whoever claims the revived one.
WITH next AS MATERIALIZED (
    SELECT first.id
    FROM (
        SELECT DISTINCT destination, aggregate_id FROM hooklatch.outbox
        WHERE id = ANY ($1) AND aggregate_id IS NOT NULL
    ) AS revived
    CROSS JOIN LATERAL (
        SELECT id FROM hooklatch.outbox AS waiting
        WHERE waiting.destination = revived.destination AND waiting.aggregate_id = revived.aggregate_id
          AND waiting.state IN ('new', 'retry', 'parked', 'blocking')
        ORDER BY waiting.sequence
        LIMIT 1
        FOR UPDATE
    ) AS first
)
UPDATE hooklatch.outbox AS message
SET state = 'new', attempts = 0, next_attempt_at = now(), dead_at = NULL, lease_token = NULL, leased_until = NULL
WHERE message.id = ANY ($1) AND message.state IN ('new', 'retry', 'dead', 'blocking')
  AND (message.lease_token IS NULL OR message.leased_until <= now())
  AND (SELECT count(*) FROM next) >= 0
RETURNING message.id
