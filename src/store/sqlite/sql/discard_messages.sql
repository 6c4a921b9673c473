-- name: discard messages
-- One that is being tried stays.
DELETE FROM outbox
WHERE id IN (SELECT value FROM json_each(?1)) AND state <> 'sent'
    AND (lease_token IS NULL OR leased_until <= ?2)
RETURNING id, destination, aggregate_id
