-- outbox_payload
SELECT payload FROM hooklatch.outbox WHERE id = $1
