-- dead_letters
SELECT id, consumer, event_id, source, event_type, cause, reason, attempts, target, headers, body,
       received_at, died_at
FROM hooklatch.dead_letters
WHERE ($1::text IS NULL OR source = $1)
  AND ($2::text IS NULL OR event_id = $2)
  AND ($3::uuid IS NULL OR id = $3)
  AND ($4::uuid IS NULL OR id > $4)
ORDER BY id
LIMIT $5
