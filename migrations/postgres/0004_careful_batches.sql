-- Handlers that fail, at less cost: a failing event is found by how far its chunk came, and a plain batch
-- that needs care is one statement.

-- name: how far a statement came
-- Counts the events that a handler's statement has taken up. A sequence, because it is the one counter that a
-- rollback leaves as it is; each session draws from a cache of its own, so its numbers follow each other.
-- Whoever may use the schema may count.
CREATE SEQUENCE hooklatch.progress CACHE 1048576

-- name: whoever may use the schema may count
GRANT USAGE ON SEQUENCE hooklatch.progress TO PUBLIC

-- name: run handlers, as before
DROP FUNCTION hooklatch.run_handlers(
    text[], boolean[], integer, text, text[], text[], timestamptz[], text[], text[], text[], timestamptz[]
)

-- name: run handlers
-- Runs handler statements over events, in order, each event whole or not at all.
--
-- All statements run over a chunk of events in one subtransaction. A chunk that fails is undone. How many
-- events the statement had taken up (hooklatch.progress) nearly always tells which of them failed: those
-- before it are run again, it is run alone, and then those after it. Where that tells nothing (the statement
-- takes up all before it does anything, or the failure shows at the end), the chunk is run again in halves,
-- until the event that fails stands alone. Only what fails alone is reported, with its SQLSTATE, and it takes
-- no other with it. When the first half succeeds, the second must hold the failure: it is halved
-- without being run as a whole. What no smaller chunk can cure (a lost connection, a deadlock, an operator's
-- intervention, no resources, an internal error) is raised again and ends the transaction.
--
-- A statement that `p_returns` marks yields one row: what it returned, as an array of jsonb objects, and
-- whether that is plainly right, so that only what is not need be looked at.
--
-- Returns only what is not plain success: a failed event has `ordinal`, `code` and `message`; an answer
-- that a statement returned has `event_id` and any of `status`, `headers`, `body`, in order.
--
-- `p_taken`: all events have failed as one chunk already, and so many of them had been taken up.
--
-- A handler waits for locks as long as its statement may run (lock_timeout is for event keys). The
-- deferrable constraints of a chunk are checked at its end, while its events can still be told apart.
CREATE FUNCTION hooklatch.run_handlers(
    p_statements text[], p_returns boolean[], p_chunk integer, p_source text,
    p_ids text[], p_types text[], p_occurred_at timestamptz[],
    p_data text[], p_payloads text[], p_headers text[], p_received_at timestamptz[],
    p_taken bigint DEFAULT NULL
) RETURNS TABLE (
    ordinal integer, code text, message text, event_id text, status integer, headers jsonb, body text
)
LANGUAGE plpgsql
SET lock_timeout = 0
AS $function$
#variable_conflict error
DECLARE
    c_message_length CONSTANT integer := 2000;
    -- What is known of a range: nothing; that it fails as a whole; that it succeeds, if its failure was
    -- where the count said.
    c_unknown     CONSTANT integer := 0;
    c_fails       CONSTANT integer := 1;
    c_acquitted   CONSTANT integer := 2;
    v_low         integer := 1;
    v_high        integer;
    -- Where the ranges still to run end, the next one last; and what is known of each.
    v_ends        integer[] := '{}';
    v_known       integer[] := '{}';
    v_count       bigint;
    -- How many events the range that has just failed had taken up.
    v_taken       bigint := p_taken;
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
            v_known := ARRAY[c_unknown];
        END IF;
        v_high := v_ends[cardinality(v_ends)];
        IF v_taken IS NOT NULL THEN
            IF v_known[cardinality(v_ends)] = c_unknown AND v_taken BETWEEN 1 AND v_high - v_low THEN
                -- Those before the one that was taken up last, then that one.
                v_ends := v_ends || (v_low + v_taken - 1)::integer;
                v_known := v_known || c_unknown;
                IF v_taken > 1 THEN
                    v_ends := v_ends || (v_low + v_taken - 2)::integer;
                    v_known := v_known || c_acquitted;
                END IF;
            ELSE
                v_known[cardinality(v_ends)] := c_fails;
            END IF;
            v_taken := NULL;
            CONTINUE;
        END IF;
        IF v_known[cardinality(v_ends)] = c_fails AND v_low < v_high THEN
            v_ends := array_append(v_ends, (v_low + v_high) / 2);
            v_known := array_append(v_known, c_unknown);
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
                v_count := nextval('hooklatch.progress');
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
            v_taken := currval('hooklatch.progress') - v_count;
            CONTINUE;
        END IF;
        IF v_failed THEN
            -- It may be all that was wrong with the ranges around it.
            v_known := array_fill(c_unknown, ARRAY[cardinality(v_ends)]);
            RETURN QUERY SELECT v_low, v_code, v_message, NULL::text, NULL::integer, NULL::jsonb, NULL::text;
        ELSIF cardinality(v_answers) > 0 THEN
            RETURN QUERY
                SELECT NULL::integer, NULL::text, NULL::text, answer ->> 'event_id',
                       (answer ->> 'status')::integer, nullif(answer -> 'headers', 'null'::jsonb),
                       answer ->> 'body'
                FROM unnest(v_answers) AS answer;
        END IF;
        v_ends := v_ends[:cardinality(v_ends) - 1];
        v_known := v_known[:cardinality(v_ends)];
        v_low := v_high + 1;
    END LOOP;
END
$function$

-- name: apply events
-- Inserts the keys of events and runs one handler's statement over those that were new, each event whole or
-- not at all: the whole of a plain batch of which some may fail. Nothing is left of an event that failed, not
-- even its key.
--
-- Returns only what is not plain success: the `ordinal` of an event, from 1, with `code` and `message` if it
-- failed, without them if its key was there before.
--
-- Keys are inserted in sorted order, so that two replicas cannot deadlock. What events have in common comes
-- once, and what differs comes a kind: `p_kind` is NULL when there is one.
CREATE FUNCTION hooklatch.apply_events(
    p_statement text, p_chunk integer,
    p_ids text[], p_types text[], p_occurred_at timestamptz[],
    p_data text[], p_payloads text[], p_headers text[], p_received_at timestamptz[], p_source text,
    p_consumer text, p_kinds text[], p_kind integer[], p_state text, p_status smallint,
    p_fingerprints bytea[], p_times timestamptz[]
) RETURNS TABLE (ordinal integer, code text, message text)
LANGUAGE plpgsql
AS $function$
#variable_conflict error
DECLARE
    v_new    text[];
    v_places integer[];
    v_failed text[] := '{}';
    v_taken  bigint;
    v_told   record;
BEGIN
    WITH inserted AS (
        INSERT INTO hooklatch.processed_events
            (consumer, event_id, source, event_type, state, status, fingerprint, occurred_at, processed_at)
        SELECT p_consumer, new.event_id, p_source, p_kinds[coalesce(new.kind, 1)], p_state, p_status,
               new.fingerprint, new.occurred_at, now()
        FROM unnest(p_ids, p_kind, p_fingerprints, p_times) AS new (event_id, kind, fingerprint, occurred_at)
        ORDER BY new.event_id COLLATE "C"
        ON CONFLICT (event_id, consumer) DO NOTHING
        RETURNING processed_events.event_id
    )
    SELECT coalesce(array_agg(inserted.event_id), '{}') INTO v_new FROM inserted;
    IF cardinality(v_new) < cardinality(p_ids) THEN
        RETURN QUERY
            SELECT arrived.place::integer, NULL::text, NULL::text
            FROM unnest(p_ids) WITH ORDINALITY AS arrived (id, place)
            WHERE arrived.id <> ALL (v_new);
        SELECT array_agg(place ORDER BY place), array_agg(id ORDER BY place), array_agg(type ORDER BY place),
               array_agg(occurred_at ORDER BY place), array_agg(data ORDER BY place),
               array_agg(payload ORDER BY place), array_agg(headers ORDER BY place),
               array_agg(received_at ORDER BY place)
        INTO v_places, p_ids, p_types, p_occurred_at, p_data, p_payloads, p_headers, p_received_at
        FROM unnest(p_ids, p_types, p_occurred_at, p_data, p_payloads, p_headers, p_received_at)
            WITH ORDINALITY AS arrived (id, type, occurred_at, data, payload, headers, received_at, place)
        WHERE id = ANY (v_new);
    END IF;
    IF p_chunk >= cardinality(p_ids) THEN
        v_taken := nextval('hooklatch.progress');
        BEGIN
            SET CONSTRAINTS ALL DEFERRED;
            EXECUTE p_statement
                USING p_ids, p_types, p_occurred_at, p_data, p_payloads, p_headers, p_received_at, p_source, 1;
            SET CONSTRAINTS ALL IMMEDIATE;
            RETURN;
        EXCEPTION WHEN OTHERS OR assert_failure THEN
            -- What it was, and what it means, run_handlers finds out.
            v_taken := currval('hooklatch.progress') - v_taken;
        END;
    END IF;
    FOR v_told IN
        SELECT told.ordinal, told.code, told.message
        FROM hooklatch.run_handlers(ARRAY[p_statement], ARRAY[false], p_chunk, p_source, p_ids, p_types,
                                    p_occurred_at, p_data, p_payloads, p_headers, p_received_at, v_taken) AS told
    LOOP
        v_failed := v_failed || p_ids[v_told.ordinal];
        RETURN QUERY SELECT coalesce(v_places[v_told.ordinal], v_told.ordinal), v_told.code, v_told.message;
    END LOOP;
    IF cardinality(v_failed) > 0 THEN
        -- Planned for the table as it is, not as it was when this session began.
        EXECUTE 'DELETE FROM hooklatch.processed_events WHERE consumer = $1 AND event_id = ANY ($2)'
            USING p_consumer, v_failed;
    END IF;
END
$function$
