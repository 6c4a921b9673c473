-- count_prunable_processed_events
SELECT count(*) FROM hooklatch.processed_events
WHERE processed_at < now() - make_interval(secs => $1)
