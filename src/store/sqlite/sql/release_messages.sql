-- name: release messages
-- Gives back what was claimed and not tried.
UPDATE outbox
SET state = iif(attempts = 1, 'new', 'retry'), attempts = attempts - 1, lease_token = NULL,
    leased_until = NULL, next_attempt_at = ?2
FROM json_each(?1) AS held
WHERE outbox.id = held.value ->> 0 AND lease_token = held.value ->> 1
