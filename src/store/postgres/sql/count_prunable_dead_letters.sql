-- count_prunable_dead_letters
SELECT count(*) FROM hooklatch.dead_letters
WHERE died_at < now() - make_interval(secs => $1)
