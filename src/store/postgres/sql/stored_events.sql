-- stored_events
-- LATERAL with LIMIT: one index lookup a key, whatever size the planner takes the table for.
SELECT wanted.ordinal - 1 AS ordinal, stored.*
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted (consumer, event_id, ordinal)
CROSS JOIN LATERAL (
    SELECT source, state, status, fingerprint, reply_headers, reply_body,
           processed_at > now() - make_interval(secs => $3) AS event_lives,
           extract(epoch FROM processed_at + make_interval(secs => $4) - now())::float8 AS answer_left
    FROM hooklatch.processed_events AS event
    WHERE event.consumer = wanted.consumer AND event.event_id = wanted.event_id
    LIMIT 1
) AS stored
