-- revise_events
-- An upsert that always finds its row (this transaction inserted it), because it goes through the index
-- whatever size the planner takes the table for; a join planned while the table was small would read all
-- of it. The values for columns that stay are never stored.
INSERT INTO hooklatch.processed_events
    (consumer, event_id, source, event_type, state, status, reply_headers, reply_body, processed_at)
SELECT new.consumer, new.event_id, '', '', new.state, new.status, new.reply_headers::jsonb, new.reply_body, now()
FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[], $5::text[], $6::bytea[])
    AS new (consumer, event_id, state, status, reply_headers, reply_body)
ON CONFLICT (consumer, event_id) DO UPDATE
SET state = excluded.state, status = excluded.status,
    reply_headers = excluded.reply_headers, reply_body = excluded.reply_body
RETURNING 1
