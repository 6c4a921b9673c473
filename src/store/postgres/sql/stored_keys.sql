-- stored_keys
-- LATERAL with LIMIT: one index lookup a key, whatever size the planner takes the table for.
SELECT wanted.ordinal - 1 AS ordinal, stored.*
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted (source, key, ordinal)
CROSS JOIN LATERAL (
    SELECT fingerprint, status, reply_headers, reply_body,
           created_at > now() - make_interval(secs => $3) AS live
    FROM hooklatch.idempotency_keys AS key
    WHERE key.source = wanted.source AND key.key = wanted.key
    LIMIT 1
) AS stored
