-- The outbox: what must go on to another system, written in the transaction of the change that causes it.
--
-- Whoever writes to the outbox inserts into `outbox` (destination and payload are enough); docs/outbox.md is
-- the contract. Everything else here is the relay's. Differs from PostgreSQL because SQLite has neither
-- functions of the database's own nor a hash to shard by.

-- name: outbox
-- `sequence` orders the messages of one aggregate and nothing else. The states are those of PostgreSQL. The
-- defaults keep to what SQLite 3.37 knows: they run in the writer's SQLite, not in ours.
CREATE TABLE outbox (
    sequence        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id              TEXT    NOT NULL UNIQUE DEFAULT (lower(
        hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
        || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))
        CHECK (length(id) = 36 AND id = lower(id)),
    destination     TEXT    NOT NULL CHECK (destination <> ''),
    aggregate_id    TEXT             CHECK (aggregate_id <> '' AND length(CAST(aggregate_id AS BLOB)) <= 1024),
    event_type      TEXT    NOT NULL DEFAULT '',
    content_type    TEXT    NOT NULL DEFAULT 'application/json',
    headers         TEXT    NOT NULL DEFAULT '{}' CHECK (json_type(headers) = 'object'),
    payload         ANY     NOT NULL CHECK (typeof(payload) IN ('text', 'blob')),
    traceparent     TEXT,
    hops            INTEGER NOT NULL DEFAULT 0 CHECK (hops >= 0),
    created_at      INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)),
    state           TEXT    NOT NULL DEFAULT 'new'
        CHECK (state IN ('new', 'retry', 'parked', 'sent', 'dead', 'blocking')),
    next_attempt_at INTEGER NOT NULL DEFAULT 0,
    attempts        INTEGER NOT NULL DEFAULT 0,
    lease_token     TEXT,
    leased_until    INTEGER,
    sent_at         INTEGER,
    dead_at         INTEGER,
    last_status     INTEGER,
    last_error      TEXT,
    answer_bytes    INTEGER
) STRICT;

-- name: outbox unsent
CREATE INDEX outbox_unsent ON outbox (destination, state, next_attempt_at, sequence)
    WHERE state IN ('new', 'retry', 'parked', 'blocking');

-- name: outbox by aggregate
CREATE INDEX outbox_aggregates ON outbox (destination, aggregate_id, sequence)
    WHERE state IN ('new', 'retry', 'parked', 'blocking') AND aggregate_id IS NOT NULL;

-- name: outbox in flight
CREATE INDEX outbox_in_flight ON outbox (destination, aggregate_id)
    WHERE lease_token IS NOT NULL AND aggregate_id IS NOT NULL;

-- name: outbox sent
CREATE INDEX outbox_sent ON outbox (sent_at) WHERE state = 'sent';

-- name: outbox dead
CREATE INDEX outbox_dead ON outbox (destination, dead_at) WHERE state IN ('dead', 'blocking');

-- name: outbox attempts
CREATE TABLE outbox_attempts (
    message_id   TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,
    latency_us   INTEGER NOT NULL,
    status       INTEGER,
    error        TEXT    NOT NULL,
    answer       BLOB    NOT NULL,
    answer_bytes INTEGER NOT NULL,
    PRIMARY KEY (message_id, attempt, ended_at)
) STRICT, WITHOUT ROWID;

-- name: destinations
CREATE TABLE destinations (
    name         TEXT NOT NULL PRIMARY KEY,
    paused_at    INTEGER,
    pause_reason TEXT,
    open_until   INTEGER,
    open_reason  TEXT
) STRICT, WITHOUT ROWID;
