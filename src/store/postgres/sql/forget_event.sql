-- forget_event
DELETE FROM hooklatch.processed_events WHERE consumer = $1 AND event_id = $2
