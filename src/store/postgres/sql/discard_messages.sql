-- discard_messages
-- One that is being tried stays.
DELETE FROM hooklatch.outbox AS message
WHERE message.id = ANY ($1) AND message.state <> 'sent'
  AND (message.lease_token IS NULL OR message.leased_until <= now())
RETURNING message.id, message.destination, message.aggregate_id
