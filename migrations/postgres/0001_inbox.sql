-- The inbox: what has taken effect, the answers it got, what needs a person, and the ledger.
--
-- Differs from SQLite because everything lives in a schema and is named in full: no statement depends on
-- search_path. Each statement begins with its name and runs on its own.

-- name: processed events
-- Reply columns are NULL unless a handler gave the answer: the standard one is rendered again.
CREATE TABLE hooklatch.processed_events (
    consumer      text        NOT NULL,
    event_id      text        NOT NULL,
    source        text        NOT NULL,
    event_type    text        NOT NULL,
    state         text        NOT NULL CHECK (state IN ('applied', 'ignored', 'stale', 'rejected')),
    status        smallint    NOT NULL,
    fingerprint   bytea,
    reply_headers jsonb,
    reply_body    bytea,
    occurred_at   timestamptz,
    processed_at  timestamptz NOT NULL,
    PRIMARY KEY (event_id, consumer)
)

-- name: processed events by age
-- A btree, not BRIN: pruned pages are used again, and a BRIN summary never shrinks, so that pruning
-- would come to read the whole table.
CREATE INDEX processed_events_processed_at ON hooklatch.processed_events (processed_at)

-- name: idempotency keys
-- Explicit keys that differ from the event id. Status and answer are set before the commit.
CREATE TABLE hooklatch.idempotency_keys (
    source        text        NOT NULL,
    key           text        NOT NULL,
    fingerprint   bytea       NOT NULL,
    status        smallint,
    reply_headers jsonb,
    reply_body    bytea,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (source, key)
)

-- name: idempotency keys by age
CREATE INDEX idempotency_keys_created_at ON hooklatch.idempotency_keys (created_at)

-- name: dead letters
-- Headers are json, not jsonb: their bytes must come back as they were.
CREATE TABLE hooklatch.dead_letters (
    id          uuid        NOT NULL PRIMARY KEY,
    consumer    text        NOT NULL,
    event_id    text        NOT NULL,
    source      text        NOT NULL,
    event_type  text        NOT NULL,
    cause       text        NOT NULL CHECK (cause IN ('rejected', 'failed', 'too-old')),
    reason      text        NOT NULL,
    attempts    integer     NOT NULL,
    target      text        NOT NULL,
    headers     json        NOT NULL,
    body        bytea       NOT NULL,
    received_at timestamptz NOT NULL,
    died_at     timestamptz NOT NULL,
    UNIQUE (consumer, event_id)
)

-- name: dead letters by age
CREATE INDEX dead_letters_died_at ON hooklatch.dead_letters (died_at)

-- name: entity versions
CREATE TABLE hooklatch.entity_versions (
    consumer   text        NOT NULL,
    entity     text        NOT NULL,
    sequence   bigint      NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (consumer, entity)
)

-- name: deliveries
-- Delivery ids are uuids of version 7: time ranges, pages and pruning go through the primary key.
CREATE TABLE hooklatch.deliveries (
    delivery_id     uuid        NOT NULL,
    ordinal         integer     NOT NULL,
    received_at     timestamptz NOT NULL,
    source          text        NOT NULL,
    event_id        text,
    event_type      text,
    idempotency_key text,
    outcome         text        NOT NULL,
    status          smallint    NOT NULL,
    duration_us     bigint      NOT NULL,
    body_bytes      bigint      NOT NULL,
    peer            text,
    reason          text,
    PRIMARY KEY (delivery_id, ordinal)
)

-- name: deliveries by event
-- A hash: 20 bytes a line, however long the id. Not BRIN with Bloom filters: each line that goes into
-- a range that has its filter writes all of the filter to the log again, 5.7 kB a line.
CREATE INDEX deliveries_event_id ON hooklatch.deliveries USING hash (event_id)

-- name: mistake in answers
-- What is wrong with the answers that a handler's statement returned, in words for its author; NULL
-- when nothing is. Whatever passes can be sent as an HTTP answer. In plpgsql, which keeps its plan: a
-- function in SQL would be planned at each call.
CREATE FUNCTION hooklatch.mistake_in_answers(p_answers jsonb[], p_ids text[]) RETURNS text
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    RETURN (
        SELECT format('the handler answered for event %s, which it was not given', answer -> 'event_id')
        FROM unnest(p_answers) AS answer
        WHERE answer ->> 'event_id' NOT IN (SELECT unnest(p_ids))
        UNION ALL
        SELECT format('the handler answered with status %s, which is not a number from 200 to 599',
                      answer -> 'status')
        FROM unnest(p_answers) AS answer
        WHERE answer ->> 'status' !~ '^[2-5][0-9]{2}$'
        UNION ALL
        SELECT 'the handler answered with headers that are not a JSON object'
        FROM unnest(p_answers) AS answer
        WHERE jsonb_typeof(answer -> 'headers') NOT IN ('object', 'null')
        UNION ALL
        SELECT format('the handler answered with a header %s that HTTP does not allow', to_jsonb(header.name))
        FROM unnest(p_answers) AS answer
        CROSS JOIN LATERAL jsonb_each(
            CASE jsonb_typeof(answer -> 'headers') WHEN 'object' THEN answer -> 'headers' END
        ) AS header (name, value)
        WHERE header.name !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]+$'
           OR jsonb_typeof(header.value) NOT IN ('string', 'number', 'boolean')
           OR header.value #>> '{}' !~ '^[\x20-\x7e\t]*$'
        LIMIT 1
    );
END
$function$

-- name: run handlers
-- Runs handler statements over events, in order, each event whole or not at all.
--
-- All statements run over a chunk of events in one subtransaction. A chunk that fails is undone and
-- run again in halves, until the event that fails stands alone: it is reported with its SQLSTATE, and
-- takes no other with it. When the first half succeeds, the second must hold the failure: it is halved
-- without being run as a whole. What no smaller chunk can cure (a lost connection, a deadlock, an operator's
-- intervention, no resources, an internal error) is raised again and ends the transaction.
--
-- A statement that `p_returns` marks yields one row: what it returned, as an array of jsonb objects, and
-- whether that is plainly right, so that only what is not need be looked at.
--
-- Returns only what is not plain success: a failed event has `ordinal`, `code` and `message`; an answer
-- that a statement returned has `event_id` and any of `status`, `headers`, `body`, in order.
--
-- A handler waits for locks as long as its statement may run (lock_timeout is for event keys). The
-- deferrable constraints of a chunk are checked at its end, while its events can still be told apart.
CREATE FUNCTION hooklatch.run_handlers(
    p_statements text[], p_returns boolean[], p_chunk integer, p_source text,
    p_ids text[], p_types text[], p_occurred_at timestamptz[],
    p_data text[], p_payloads text[], p_headers text[], p_received_at timestamptz[]
) RETURNS TABLE (
    ordinal integer, code text, message text, event_id text, status integer, headers jsonb, body text
)
LANGUAGE plpgsql
SET lock_timeout = 0
AS $function$
#variable_conflict error
DECLARE
    c_message_length CONSTANT integer := 2000;
    v_low         integer := 1;
    v_high        integer;
    -- Where the ranges still to run end, the next one last; and whether each is known to fail.
    v_ends        integer[] := '{}';
    v_suspects    boolean[] := '{}';
    v_failed      boolean;
    v_code        text;
    v_message     text;
    v_ids         text[];
    v_types       text[];
    v_occurred_at timestamptz[];
    v_data        text[];
    v_payloads    text[];
    v_headers     text[];
    v_received_at timestamptz[];
    v_returned    jsonb[];
    v_plain       boolean;
    v_answers     jsonb[];
    v_mistake     text;
BEGIN
    WHILE v_low <= cardinality(p_ids) LOOP
        IF cardinality(v_ends) = 0 THEN
            v_ends := ARRAY[least(v_low + greatest(p_chunk, 1) - 1, cardinality(p_ids))];
            v_suspects := ARRAY[false];
        END IF;
        v_high := v_ends[cardinality(v_ends)];
        IF v_suspects[cardinality(v_ends)] AND v_low < v_high THEN
            v_ends := array_append(v_ends, (v_low + v_high) / 2);
            v_suspects := array_append(v_suspects, false);
            CONTINUE;
        END IF;
        v_ids := p_ids[v_low:v_high];
        v_types := p_types[v_low:v_high];
        v_occurred_at := p_occurred_at[v_low:v_high];
        v_data := p_data[v_low:v_high];
        v_payloads := p_payloads[v_low:v_high];
        v_headers := p_headers[v_low:v_high];
        v_received_at := p_received_at[v_low:v_high];
        v_answers := '{}';
        v_failed := false;
        BEGIN
            -- A chunk before this one has left them immediate.
            SET CONSTRAINTS ALL DEFERRED;
            FOR i IN 1 .. cardinality(p_statements) LOOP
                IF p_returns[i] THEN
                    EXECUTE p_statements[i] INTO v_returned, v_plain
                        USING v_ids, v_types, v_occurred_at, v_data, v_payloads, v_headers,
                              v_received_at, p_source, v_low;
                    IF NOT v_plain THEN
                        v_mistake := hooklatch.mistake_in_answers(v_returned, v_ids);
                        IF v_mistake IS NOT NULL THEN
                            RAISE EXCEPTION '%', v_mistake;
                        END IF;
                    END IF;
                    v_answers := v_answers || v_returned;
                ELSE
                    EXECUTE p_statements[i]
                        USING v_ids, v_types, v_occurred_at, v_data, v_payloads, v_headers,
                              v_received_at, p_source, v_low;
                END IF;
            END LOOP;
            SET CONSTRAINTS ALL IMMEDIATE;
        EXCEPTION WHEN OTHERS OR assert_failure THEN
            IF left(SQLSTATE, 2) IN ('08', '40', '53', '57', '58', 'XX') OR SQLSTATE = '55P03' THEN
                RAISE;
            END IF;
            v_failed := true;
            v_code := SQLSTATE;
            v_message := left(SQLERRM, c_message_length);
        END;
        IF v_failed AND v_low < v_high THEN
            v_suspects[cardinality(v_ends)] := true;
            CONTINUE;
        END IF;
        IF v_failed THEN
            -- It may be all that was wrong with the ranges around it.
            v_suspects := array_fill(false, ARRAY[cardinality(v_ends)]);
            RETURN QUERY SELECT v_low, v_code, v_message, NULL::text, NULL::integer, NULL::jsonb, NULL::text;
        ELSIF cardinality(v_answers) > 0 THEN
            RETURN QUERY
                SELECT NULL::integer, NULL::text, NULL::text, answer ->> 'event_id',
                       (answer ->> 'status')::integer, nullif(answer -> 'headers', 'null'::jsonb),
                       answer ->> 'body'
                FROM unnest(v_answers) AS answer;
        END IF;
        v_ends := v_ends[:cardinality(v_ends) - 1];
        v_suspects := v_suspects[:cardinality(v_ends)];
        v_low := v_high + 1;
    END LOOP;
END
$function$
