-- count_prunable_idempotency_keys
SELECT count(*) FROM hooklatch.idempotency_keys
WHERE created_at < now() - make_interval(secs => $1)
