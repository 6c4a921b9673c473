-- name: read events back
SELECT sent.key AS ordinal, e.source, e.state, e.status, e.reply_headers, e.reply_body, e.fingerprint,
    e.processed_at <= ?2 AS expired, max(e.processed_at - ?3, 0) AS answer_left_us
FROM json_each(?1) AS sent
JOIN processed_events AS e ON e.consumer = sent.value ->> 0 AND e.event_id = sent.value ->> 1
