-- deliveries_of_event
-- MATERIALIZED: find the event's lines through their own index before anything else; in the order of
-- the primary key the planner would read the ledger from its end until it has met enough of them.
-- WITH TIES: a page ends with a whole delivery, so it may be longer than the limit.
WITH line AS MATERIALIZED (
    SELECT * FROM hooklatch.deliveries
    WHERE hashtextextended(event_id, 0) = hashtextextended($7, 0) AND event_id = $7
)
SELECT * FROM (
    SELECT delivery_id, ordinal, received_at, source, event_id, event_type, idempotency_key, outcome, status,
           duration_us, body_bytes, peer, reason, headers
    FROM line
    WHERE delivery_id >= $1 AND delivery_id < $2
      AND ($3::timestamptz IS NULL OR received_at >= $3)
      AND ($4::text IS NULL OR source = $4)
      AND ($5::text[] IS NULL OR outcome = ANY ($5))
    ORDER BY delivery_id DESC
    FETCH FIRST $6 ROWS WITH TIES
) AS page
ORDER BY delivery_id DESC, ordinal
