-- run_handlers
SELECT ordinal, code, message, event_id, status, headers #>> '{}' AS headers, body
FROM hooklatch.run_handlers($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
