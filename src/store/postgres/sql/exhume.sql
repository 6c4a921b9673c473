-- exhume
DELETE FROM hooklatch.dead_letters
WHERE (consumer, event_id) IN (SELECT * FROM unnest($1::text[], $2::text[]))
