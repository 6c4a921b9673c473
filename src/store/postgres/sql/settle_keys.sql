-- settle_keys
-- An upsert that always finds its row, for the reason that revise_events has.
INSERT INTO hooklatch.idempotency_keys (source, key, fingerprint, status, reply_headers, reply_body, created_at)
SELECT new.source, new.key, '', new.status, new.reply_headers::jsonb, new.reply_body, now()
FROM unnest($1::text[], $2::text[], $3::smallint[], $4::text[], $5::bytea[])
    AS new (source, key, status, reply_headers, reply_body)
ON CONFLICT (source, key) DO UPDATE
SET status = excluded.status, reply_headers = excluded.reply_headers, reply_body = excluded.reply_body
RETURNING 1
