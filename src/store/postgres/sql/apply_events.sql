-- apply_events
-- $17: the handler's statement. $19: the function that holds it, or null. Whether it is there, only the session
-- that runs this can say.
SELECT ordinal, code, message
FROM hooklatch.apply_events(
    CASE
        WHEN to_regproc($19::text) IS NULL THEN $17::text
        ELSE 'SELECT ' || $19::text || '($1, $2, $3, $4, $5, $6, $7, $8, $9)'
    END,
    $18, $1, $2, $3, $4, $5, $6, $7, $8, $10, $11, $12, $13, $14, $15, $16)
