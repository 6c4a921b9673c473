-- name: write the ledger
INSERT INTO deliveries
    (delivery_id, ordinal, received_at, source, event_id, event_type, idempotency_key, outcome, status,
     duration_us, body_bytes, peer, reason, headers)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
WHERE column1 IS NOT NULL
ON CONFLICT (delivery_id, ordinal) DO NOTHING
