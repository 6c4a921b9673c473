-- name: revise events
UPDATE processed_events
SET state = sent.value ->> 'state', status = sent.value ->> 'status',
    reply_headers = sent.value ->> 'headers', reply_body = unhex(sent.value ->> 'body')
FROM json_each(?1) AS sent
WHERE consumer = sent.value ->> 'consumer' AND event_id = sent.value ->> 'event_id'
