-- deliveries
-- `since_id` and `before` bound the primary key; `since` is exact.
-- WITH TIES: a page ends with a whole delivery, so it may be longer than the limit.
SELECT * FROM (
    SELECT delivery_id, ordinal, received_at, source, event_id, event_type, idempotency_key, outcome, status,
           duration_us, body_bytes, peer, reason, headers
    FROM hooklatch.deliveries
    WHERE delivery_id >= $1 AND delivery_id < $2
      AND ($3::timestamptz IS NULL OR received_at >= $3)
      AND ($4::text IS NULL OR source = $4)
      AND ($5::text[] IS NULL OR outcome = ANY ($5))
    ORDER BY delivery_id DESC
    FETCH FIRST $6 ROWS WITH TIES
) AS page
ORDER BY delivery_id DESC, ordinal
