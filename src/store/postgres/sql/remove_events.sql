-- remove_events
DELETE FROM hooklatch.processed_events
WHERE (consumer, event_id) IN (SELECT * FROM unnest($1::text[], $2::text[]))
  AND (processed_at <= now() - make_interval(secs => $3) OR state = 'rejected')
