-- name: write the ledger
INSERT INTO deliveries
    (delivery_id, ordinal, received_at, source, event_id, event_type, idempotency_key, outcome, status,
     duration_us, body_bytes, peer, reason, headers)
SELECT value ->> '$[0][0]', value ->> '$[0][1]', value ->> '$[0][2]', value ->> '$[0][3]',
    value ->> '$[1][0]', value ->> '$[1][1]', value ->> '$[1][2]',
    value ->> '$[2][0]', value ->> '$[2][1]',
    value ->> '$[3][0]', value ->> '$[3][1]', value ->> '$[3][2]', value ->> '$[3][3]',
    value ->> '$[3][4]'
FROM json_each(?1)
WHERE true
ON CONFLICT (delivery_id, ordinal) DO NOTHING
