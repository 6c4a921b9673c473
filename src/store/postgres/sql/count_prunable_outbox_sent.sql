-- count_prunable_outbox_sent
SELECT count(*) FROM hooklatch.outbox
WHERE state = 'sent' AND sent_at < now() - make_interval(secs => $1)
