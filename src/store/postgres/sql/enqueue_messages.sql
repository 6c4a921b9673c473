-- enqueue_messages
INSERT INTO hooklatch.outbox
    (id, destination, aggregate_id, event_type, content_type, headers, payload, traceparent, hops)
SELECT new.id, new.destination, new.aggregate_id, new.event_type, new.content_type, new.headers, new.payload,
       new.traceparent, new.hops
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::bytea[], $8::text[],
            $9::smallint[])
    WITH ORDINALITY
    AS new (id, destination, aggregate_id, event_type, content_type, headers, payload, traceparent, hops, place)
ORDER BY new.place
RETURNING pg_notify('hooklatch_outbox', destination)
