-- Answers of handlers are judged as on SQLite: headers may be JSON or JSON as text, a mistake is told in the same
-- words, and under a SQLSTATE of its own.

-- name: mistake in headers as text
-- What is wrong with headers that came as text; NULL: nothing, or they are a JSON null. `json`, because it
-- keeps what `jsonb` drops: the same name twice.
CREATE FUNCTION hooklatch.mistake_in_header_text(p_headers text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $function$
BEGIN
    IF json_typeof(p_headers::json) NOT IN ('object', 'null') THEN
        RETURN 'headers that are not a JSON object';
    END IF;
    RETURN (
        SELECT mistake FROM (
            SELECT 1 AS rank, 'headers in which a name stands twice' AS mistake
            FROM json_each_text(CASE json_typeof(p_headers::json) WHEN 'object' THEN p_headers::json END) AS header
            GROUP BY header.key
            HAVING count(*) > 1
            UNION ALL
            SELECT 2, format('a header %s that HTTP does not allow', to_jsonb(header.key))
            FROM json_each(CASE json_typeof(p_headers::json) WHEN 'object' THEN p_headers::json END) AS header
            WHERE header.key !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]+$'
               OR json_typeof(header.value) NOT IN ('string', 'number', 'boolean')
               OR header.value #>> '{}' !~ '^[\x20-\x7e\t]*$'
        ) AS mistakes
        ORDER BY rank, mistake COLLATE "C"
        LIMIT 1
    );
EXCEPTION WHEN data_exception THEN
    RETURN 'headers that are not a JSON object';
END
$function$

-- name: mistake in answers
-- Raises the first mistake in what a statement returned; NULL: there is none. A column whose values are bytes
-- is named by `hooklatch_bytes`: as JSON they are text like any other.
CREATE OR REPLACE FUNCTION hooklatch.mistake_in_answers(p_answers jsonb[], p_ids text[]) RETURNS text
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    v_mistake text;
BEGIN
    SELECT mistake INTO v_mistake FROM (
        SELECT place, 1 AS rank,
               format('with bytes as %s, which is text', answer ->> 'hooklatch_bytes') AS mistake
        FROM unnest(p_answers) WITH ORDINALITY AS returned (answer, place)
        WHERE answer ->> 'hooklatch_bytes' IS NOT NULL
        UNION ALL
        SELECT place, 2, format('for event %s, which it was not given', to_jsonb(answer ->> 'event_id'))
        FROM unnest(p_answers) WITH ORDINALITY AS returned (answer, place)
        WHERE answer ->> 'event_id' NOT IN (SELECT unnest(p_ids))
        UNION ALL
        SELECT place, 3, format('with status %s, which is not a number from 200 to 599', answer -> 'status')
        FROM unnest(p_answers) WITH ORDINALITY AS returned (answer, place)
        WHERE answer ->> 'status' !~ '^[2-5][0-9]{2}$'
        UNION ALL
        SELECT place, 4, 'with headers that are not a JSON object'
        FROM unnest(p_answers) WITH ORDINALITY AS returned (answer, place)
        WHERE jsonb_typeof(answer -> 'headers') NOT IN ('object', 'string', 'null')
        UNION ALL
        SELECT place, 4, 'with ' || hooklatch.mistake_in_header_text(answer ->> 'headers')
        FROM unnest(p_answers) WITH ORDINALITY AS returned (answer, place)
        WHERE jsonb_typeof(answer -> 'headers') = 'string'
          AND hooklatch.mistake_in_header_text(answer ->> 'headers') IS NOT NULL
        UNION ALL
        SELECT place, 4, format('with a header %s that HTTP does not allow', to_jsonb(header.name))
        FROM unnest(p_answers) WITH ORDINALITY AS returned (answer, place)
        CROSS JOIN LATERAL jsonb_each(
            CASE jsonb_typeof(answer -> 'headers') WHEN 'object' THEN answer -> 'headers' END
        ) AS header (name, value)
        WHERE header.name !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]+$'
           OR jsonb_typeof(header.value) NOT IN ('string', 'number', 'boolean')
           OR header.value #>> '{}' !~ '^[\x20-\x7e\t]*$'
    ) AS mistakes
    ORDER BY place, rank, mistake COLLATE "C"
    LIMIT 1;
    IF v_mistake IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'WH001', MESSAGE = 'the handler answered ' || v_mistake;
    END IF;
    RETURN NULL;
END
$function$
