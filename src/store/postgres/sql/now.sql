-- now
SELECT now()
