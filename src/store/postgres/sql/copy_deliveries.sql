-- copy_deliveries
COPY hooklatch.deliveries
    (delivery_id, ordinal, received_at, source, event_id, event_type, idempotency_key, outcome, status,
     duration_us, body_bytes, peer, reason, headers)
FROM STDIN (FORMAT binary)
