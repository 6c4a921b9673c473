-- name: read the ledger
-- ?1 and ?2 bound the primary key, `since` is exact. A page ends with a whole delivery, because the next
-- one begins before its id: it may be longer than the limit. Below 'g' stands every uuid. One lower bound,
-- because SQLite seeks by one only and would read on to the oldest line.
WITH matching AS NOT MATERIALIZED (
    SELECT * FROM deliveries
    WHERE delivery_id < coalesce(?2, 'g')
        AND (?3 IS NULL OR received_at >= ?3)
        AND (?4 IS NULL OR source = ?4)
        AND (?5 IS NULL OR outcome IN (SELECT value FROM json_each(?5)))
        AND (?6 IS NULL OR event_id = ?6)
),
last AS MATERIALIZED (
    SELECT delivery_id FROM matching
    WHERE delivery_id >= coalesce(?1, '')
    ORDER BY delivery_id DESC
    LIMIT 1 OFFSET ?7 - 1
)
SELECT delivery_id, ordinal, received_at, source, event_id, event_type, idempotency_key, outcome, status,
    duration_us, body_bytes, peer, reason, headers
FROM matching
WHERE delivery_id >= coalesce((SELECT delivery_id FROM last), ?1, '')
ORDER BY delivery_id DESC, ordinal
