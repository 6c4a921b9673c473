-- outbox_messages
-- Newest last. The payload is read for one message only.
SELECT id, destination, aggregate_id, sequence, event_type, content_type, headers, traceparent, hops, created_at,
       state, next_attempt_at, attempts, leased_until, sent_at, dead_at, last_status, last_error, answer_bytes,
       octet_length(payload)::bigint AS payload_bytes
FROM hooklatch.outbox
WHERE ($1::text IS NULL OR destination = $1)
  AND ($2::text[] IS NULL OR state = ANY ($2))
  AND ($3::text IS NULL OR aggregate_id = $3)
  AND ($4::uuid[] IS NULL OR id = ANY ($4))
  AND ($5::bigint IS NULL OR sequence > $5)
ORDER BY sequence
LIMIT $6
