SELECT array_agg(answer.row),
       bool_and(answer.row ->> 'event_id' = ANY ($1)
                AND coalesce(answer.row ->> 'status' ~ '^[2-5][0-9]{2}$', true)
                AND answer.row -> 'headers' IS NULL)
FROM (SELECT to_jsonb(hooklatch_answer) AS row FROM hooklatch_answer) AS answer
WHERE answer.row ->> 'event_id' IS NOT NULL
