-- forget_events
DELETE FROM hooklatch.processed_events
WHERE (consumer, event_id) IN (SELECT * FROM unnest($1::text[], $2::text[]))
