-- name: settle messages
-- Writes what became of attempts. Whoever does not hold the lease any more changes nothing.
UPDATE outbox
SET state = result.value ->> 'state', lease_token = NULL, leased_until = NULL,
    next_attempt_at = result.value ->> 'next',
    sent_at = iif(result.value ->> 'state' = 'sent', ?2, NULL),
    dead_at = iif(result.value ->> 'state' IN ('dead', 'blocking'), ?2, NULL),
    last_status = result.value ->> 'status', last_error = result.value ->> 'error',
    answer_bytes = result.value ->> 'answer_bytes'
FROM json_each(?1) AS result
WHERE outbox.id = result.value ->> 'id' AND lease_token = result.value ->> 'token'
RETURNING id, attempts, destination, aggregate_id, state
