-- discard_attempts
DELETE FROM hooklatch.outbox_attempts WHERE message_id = ANY ($1)
