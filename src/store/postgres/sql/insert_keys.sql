-- insert_keys
INSERT INTO hooklatch.idempotency_keys (source, key, fingerprint, created_at)
SELECT new.source, new.key, new.fingerprint, now()
FROM unnest($1::text[], $2::text[], $3::bytea[]) AS new (source, key, fingerprint)
ON CONFLICT (source, key) DO NOTHING
RETURNING source, key
