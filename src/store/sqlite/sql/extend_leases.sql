-- name: extend leases
UPDATE outbox SET leased_until = ?2, next_attempt_at = ?2
FROM json_each(?1) AS held
WHERE outbox.id = held.value ->> 0 AND lease_token = held.value ->> 1
RETURNING id
