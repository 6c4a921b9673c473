-- name: store answers under idempotency keys
UPDATE idempotency_keys
SET status = sent.value ->> 'status', reply_headers = sent.value ->> 'headers',
    reply_body = unhex(sent.value ->> 'body')
FROM json_each(?1) AS sent
WHERE source = sent.value ->> 'source' AND idempotency_keys.key = sent.value ->> 'key'
