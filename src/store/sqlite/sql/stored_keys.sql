-- name: read idempotency keys back
SELECT sent.key AS ordinal, k.fingerprint, k.status, k.reply_headers, k.reply_body,
    k.created_at > ?2 AS live
FROM json_each(?1) AS sent
JOIN idempotency_keys AS k ON k.source = sent.value ->> 0 AND k.key = sent.value ->> 1
