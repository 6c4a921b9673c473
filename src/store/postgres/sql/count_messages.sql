-- count_messages
SELECT count(*)
FROM hooklatch.outbox
WHERE ($1::text IS NULL OR destination = $1)
  AND ($2::text[] IS NULL OR state = ANY ($2))
  AND ($3::text IS NULL OR aggregate_id = $3)
  AND ($4::uuid[] IS NULL OR id = ANY ($4))
