-- The outbox: what must go on to another system, written in the transaction of the change that causes it.
--
-- Whoever writes to the outbox inserts into `outbox` (destination and payload are enough) or calls `enqueue`;
-- docs/outbox.md is the contract. Everything else here is the relay's.

-- name: outbox
-- `sequence` orders the messages of one aggregate and nothing else: transactions commit in another order
-- than they took their numbers, so nobody may ask for what comes after the last number seen.
--
-- state: `new` was never tried; `retry` was, or is being tried (it then has a lease); `parked` waits for
-- an earlier message of its aggregate; `sent` arrived; `dead` was given up; `blocking` was given up and
-- holds its aggregate until a person decides. Only `new` and `retry` are ever claimed, when
-- `next_attempt_at` has come; under a lease that is the lease's end.
--
-- `bucket` is what a distributed PostgreSQL shards by: it keeps an aggregate in one place.
CREATE TABLE hooklatch.outbox (
    id              uuid        NOT NULL PRIMARY KEY DEFAULT gen_random_uuid(),
    destination     text        NOT NULL CHECK (destination <> ''),
    aggregate_id    text                 CHECK (aggregate_id <> '' AND octet_length(aggregate_id) <= 1024),
    sequence        bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    event_type      text        NOT NULL DEFAULT '',
    content_type    text        NOT NULL DEFAULT 'application/json',
    headers         jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(headers) = 'object'),
    payload         bytea       NOT NULL,
    traceparent     text,
    hops            smallint    NOT NULL DEFAULT 0 CHECK (hops >= 0),
    bucket          smallint    NOT NULL
        GENERATED ALWAYS AS ((hashtext(coalesce(aggregate_id, id::text)) & 1023)::smallint) STORED,
    created_at      timestamptz NOT NULL DEFAULT now(),
    state           text        NOT NULL DEFAULT 'new'
        CHECK (state IN ('new', 'retry', 'parked', 'sent', 'dead', 'blocking')),
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    attempts        integer     NOT NULL DEFAULT 0,
    lease_token     uuid,
    leased_until    timestamptz,
    sent_at         timestamptz,
    dead_at         timestamptz,
    last_status     smallint,
    last_error      text,
    answer_bytes    bigint
)

-- name: outbox unsent
-- A claim asks for one destination and one state, so what waits for a dead destination is in nobody's way.
CREATE INDEX outbox_unsent ON hooklatch.outbox (destination, state, next_attempt_at, sequence)
    WHERE state IN ('new', 'retry', 'parked', 'blocking')

-- name: outbox by aggregate
-- What holds the later messages of an aggregate.
CREATE INDEX outbox_aggregates ON hooklatch.outbox (destination, aggregate_id, sequence)
    WHERE state IN ('new', 'retry', 'parked', 'blocking') AND aggregate_id IS NOT NULL

-- name: outbox in flight
CREATE INDEX outbox_in_flight ON hooklatch.outbox (destination, aggregate_id)
    WHERE lease_token IS NOT NULL AND aggregate_id IS NOT NULL

-- name: outbox sent
CREATE INDEX outbox_sent ON hooklatch.outbox (sent_at) WHERE state = 'sent'

-- name: outbox dead
CREATE INDEX outbox_dead ON hooklatch.outbox (destination, dead_at) WHERE state IN ('dead', 'blocking')

-- name: outbox attempts
-- Attempts that failed; what a message arrived with stands in its own row.
CREATE TABLE hooklatch.outbox_attempts (
    message_id   uuid        NOT NULL,
    attempt      integer     NOT NULL,
    ended_at     timestamptz NOT NULL,
    latency_us   bigint      NOT NULL,
    status       smallint,
    error        text        NOT NULL,
    answer       bytea       NOT NULL,
    answer_bytes bigint      NOT NULL,
    PRIMARY KEY (message_id, attempt, ended_at)
)

-- name: destinations
-- What relays tell each other about a destination. No row: nothing to tell.
CREATE TABLE hooklatch.destinations (
    name         text        NOT NULL PRIMARY KEY,
    paused_at    timestamptz,
    pause_reason text,
    open_until   timestamptz,
    open_reason  text
)

-- name: enqueue text
-- Writes a message in the caller's transaction and wakes the relays at its commit. Returns the message's
-- id, which its receiver gets as Idempotency-Key.
CREATE FUNCTION hooklatch.enqueue(
    destination  text,
    payload      text,
    event_type   text    DEFAULT '',
    aggregate_id text    DEFAULT NULL,
    headers      jsonb   DEFAULT '{}',
    content_type text    DEFAULT 'application/json',
    traceparent  text    DEFAULT NULL,
    id           uuid    DEFAULT gen_random_uuid()
) RETURNS uuid
LANGUAGE sql VOLATILE
AS $function$
    SELECT pg_notify('hooklatch_outbox', $1);
    INSERT INTO hooklatch.outbox
        (id, destination, payload, event_type, aggregate_id, headers, content_type, traceparent)
    VALUES ($8, $1, convert_to($2, 'UTF8'), $3, $4, $5, $6, $7)
    RETURNING id;
$function$

-- name: enqueue bytes
CREATE FUNCTION hooklatch.enqueue(
    destination  text,
    payload      bytea,
    event_type   text    DEFAULT '',
    aggregate_id text    DEFAULT NULL,
    headers      jsonb   DEFAULT '{}',
    content_type text    DEFAULT 'application/octet-stream',
    traceparent  text    DEFAULT NULL,
    id           uuid    DEFAULT gen_random_uuid()
) RETURNS uuid
LANGUAGE sql VOLATILE
AS $function$
    SELECT pg_notify('hooklatch_outbox', $1);
    INSERT INTO hooklatch.outbox
        (id, destination, payload, event_type, aggregate_id, headers, content_type, traceparent)
    VALUES ($8, $1, $2, $3, $4, $5, $6, $7)
    RETURNING id;
$function$
