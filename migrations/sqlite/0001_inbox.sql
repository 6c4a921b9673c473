-- The inbox: what has taken effect, the answers it got, what needs a person, and the ledger.
--
-- Differs from PostgreSQL because SQLite has no schemas (plain names), and no types for times (integers:
-- microseconds since the epoch) and uuids (text). Tables keyed by texts are WITHOUT ROWID: one tree to
-- write instead of two. STRICT: a column holds what it says.

-- name: processed events
-- Reply columns are NULL unless a handler gave the answer: the standard one is rendered again.
CREATE TABLE processed_events (
    consumer      TEXT    NOT NULL,
    event_id      TEXT    NOT NULL,
    source        TEXT    NOT NULL,
    event_type    TEXT    NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('applied', 'ignored', 'stale', 'rejected')),
    status        INTEGER NOT NULL,
    fingerprint   BLOB,
    reply_headers TEXT,
    reply_body    BLOB,
    occurred_at   INTEGER,
    processed_at  INTEGER NOT NULL,
    PRIMARY KEY (event_id, consumer)
) STRICT, WITHOUT ROWID;

-- name: processed events by age
CREATE INDEX processed_events_processed_at ON processed_events (processed_at);

-- name: idempotency keys
-- Explicit keys that differ from the event id. Status and answer are set before the commit.
CREATE TABLE idempotency_keys (
    source        TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    fingerprint   BLOB    NOT NULL,
    status        INTEGER,
    reply_headers TEXT,
    reply_body    BLOB,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (source, key)
) STRICT, WITHOUT ROWID;

-- name: idempotency keys by age
CREATE INDEX idempotency_keys_created_at ON idempotency_keys (created_at);

-- name: dead letters
CREATE TABLE dead_letters (
    id          TEXT    NOT NULL PRIMARY KEY,
    consumer    TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    event_type  TEXT    NOT NULL,
    cause       TEXT    NOT NULL CHECK (cause IN ('rejected', 'failed', 'too-old')),
    reason      TEXT    NOT NULL,
    attempts    INTEGER NOT NULL,
    target      TEXT    NOT NULL,
    headers     TEXT    NOT NULL,
    body        BLOB    NOT NULL,
    received_at INTEGER NOT NULL,
    died_at     INTEGER NOT NULL,
    UNIQUE (consumer, event_id)
) STRICT;

-- name: dead letters by age
CREATE INDEX dead_letters_died_at ON dead_letters (died_at);

-- name: entity versions
CREATE TABLE entity_versions (
    consumer   TEXT    NOT NULL,
    entity     TEXT    NOT NULL,
    sequence   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (consumer, entity)
) STRICT, WITHOUT ROWID;

-- name: deliveries
-- Delivery ids are uuids of version 7: time ranges, pages and pruning go through the primary key. Differs
-- because there is no index by event: the cheap kind does not exist here, and a reader that scans is in
-- nobody's way.
CREATE TABLE deliveries (
    delivery_id     TEXT    NOT NULL,
    ordinal         INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    source          TEXT    NOT NULL,
    event_id        TEXT,
    event_type      TEXT,
    idempotency_key TEXT,
    outcome         TEXT    NOT NULL,
    status          INTEGER NOT NULL,
    duration_us     INTEGER NOT NULL,
    body_bytes      INTEGER NOT NULL,
    peer            TEXT,
    reason          TEXT,
    PRIMARY KEY (delivery_id, ordinal)
) STRICT, WITHOUT ROWID;
