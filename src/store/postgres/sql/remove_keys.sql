-- remove_keys
DELETE FROM hooklatch.idempotency_keys
WHERE (source, key) IN (SELECT * FROM unnest($1::text[], $2::text[]))
  AND created_at <= now() - make_interval(secs => $3)
