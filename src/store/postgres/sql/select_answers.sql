-- Rows that name an event, as an array, and whether they are plainly right. A column that the statement does not
-- return is that of `absent`. One that holds bytes is named, because as JSON it is text like any other.
-- OFFSET 0: each row becomes JSON once, however often it is looked at.
SELECT array_agg(CASE WHEN answer.bytes IS NULL OR answer.row ->> answer.bytes IS NULL THEN answer.row
                      ELSE answer.row || jsonb_build_object('hooklatch_bytes', answer.bytes) END),
       bool_and(answer.bytes IS NULL
                AND answer.row ->> 'event_id' = ANY ($1)
                AND coalesce(answer.row ->> 'status' ~ '^[2-5][0-9]{2}$', true)
                AND answer.row -> 'headers' IS NULL)
FROM (
    SELECT returned.* FROM (
        SELECT NULL::text AS event_id, NULL::text AS status, NULL::text AS headers, NULL::text AS body
    ) AS absent
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
    OFFSET 0
) AS answer
WHERE answer.row ->> 'event_id' IS NOT NULL
