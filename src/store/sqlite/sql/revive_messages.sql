-- name: revive messages
-- Messages that were given up or wait for their next attempt are tried again at once. One that is being
-- tried stays as it is; whoever let its lease end has no say in it any more.
UPDATE outbox
SET state = 'new', attempts = 0, next_attempt_at = ?2, dead_at = NULL, lease_token = NULL, leased_until = NULL
WHERE id IN (SELECT value FROM json_each(?1)) AND state IN ('new', 'retry', 'dead', 'blocking')
    AND (lease_token IS NULL OR leased_until <= ?2)
