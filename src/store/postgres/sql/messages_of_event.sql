-- messages_of_event
-- What forward handlers wrote for one event. Their ids grow with time, so the event's own time is a way to them.
SELECT id, destination, aggregate_id, sequence, event_type, content_type, headers, traceparent, hops, created_at,
       state, next_attempt_at, attempts, leased_until, sent_at, dead_at, last_status, last_error, answer_bytes,
       octet_length(payload)::bigint AS payload_bytes
FROM hooklatch.outbox
WHERE id BETWEEN $1 AND $2
  AND headers ->> 'hooklatch-source' = $3
  AND headers ->> 'hooklatch-event-id' = $4
ORDER BY sequence
LIMIT $5
