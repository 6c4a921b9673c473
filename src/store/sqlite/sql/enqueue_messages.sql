-- name: enqueue messages
-- ORDER BY: the sequence follows the order of the list.
INSERT INTO outbox
    (id, destination, aggregate_id, event_type, content_type, headers, payload, traceparent, hops, created_at,
     next_attempt_at)
SELECT value ->> 'id', value ->> 'destination', value ->> 'aggregate_id', value ->> 'event_type',
    value ->> 'content_type', value ->> 'headers', unhex(value ->> 'payload'), value ->> 'traceparent',
    value ->> 'hops', ?2, ?2
FROM json_each(?1)
ORDER BY key
