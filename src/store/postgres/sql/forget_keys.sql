-- forget_keys
DELETE FROM hooklatch.idempotency_keys
WHERE (source, key) IN (SELECT * FROM unnest($1::text[], $2::text[]))
