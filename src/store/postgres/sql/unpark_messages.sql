-- unpark_messages
-- Of each of these aggregates, the first message that waits may be claimed.
UPDATE hooklatch.outbox AS message
SET state = CASE WHEN message.attempts = 0 THEN 'new' ELSE 'retry' END
FROM (
    SELECT parked.id
    FROM (
        SELECT DISTINCT destination, aggregate_id FROM unnest($1::text[], $2::text[]) AS freed (destination, aggregate_id)
    ) AS freed
    CROSS JOIN LATERAL (
        SELECT id FROM hooklatch.outbox AS candidate
        WHERE candidate.destination = freed.destination AND candidate.aggregate_id = freed.aggregate_id
          AND candidate.state = 'parked'
          AND candidate.state IN ('new', 'retry', 'parked', 'blocking')
        ORDER BY candidate.sequence
        LIMIT 1
    ) AS parked
) AS next
WHERE message.id = next.id AND message.state = 'parked'
RETURNING message.destination
