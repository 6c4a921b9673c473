-- Rows that name an event, as an array, and whether they are plainly right. A column that the statement does not
-- return is that of `absent`. One that holds bytes is named, because as JSON it is text like any other.
SELECT array_agg(answer.row),
       bool_and(answer.row ->> 'event_id' = ANY ($1)
                AND coalesce(answer.row ->> 'status' ~ '^[2-5][0-9]{2}$', true)
                AND answer.row -> 'headers' IS NULL
                AND answer.row -> 'hooklatch_bytes' IS NULL)
FROM (
    SELECT CASE WHEN returned.row ->> returned.bytes IS NULL THEN returned.row
                ELSE returned.row || jsonb_build_object('hooklatch_bytes', returned.bytes) END AS row
    FROM (SELECT NULL::text AS event_id, NULL::text AS status, NULL::text AS headers, NULL::text AS body) AS absent
    CROSS JOIN LATERAL (
        SELECT to_jsonb(hooklatch_answer) AS row,
               CASE 'bytea'::regtype
                   WHEN pg_typeof(event_id) THEN 'event_id'
                   WHEN pg_typeof(status) THEN 'status'
                   WHEN pg_typeof(headers) THEN 'headers'
                   WHEN pg_typeof(body) THEN 'body'
               END AS bytes
        FROM hooklatch_answer
    ) AS returned
) AS answer
WHERE answer.row ->> 'event_id' IS NOT NULL
