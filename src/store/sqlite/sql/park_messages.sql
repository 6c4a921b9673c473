-- name: park messages
UPDATE outbox SET state = 'parked', lease_token = NULL, leased_until = NULL
WHERE sequence IN (SELECT value FROM json_each(?1))
