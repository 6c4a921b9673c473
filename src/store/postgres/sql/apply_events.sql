-- apply_events
SELECT ordinal, code, message
FROM hooklatch.apply_events($17, $18, $1, $2, $3, $4, $5, $6, $7, $8, $10, $11, $12, $13, $14, $15, $16)
