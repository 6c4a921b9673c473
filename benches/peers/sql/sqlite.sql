-- What the plain peer on SQLite keeps: as wide as hooklatch's table, with the same indexes.
CREATE TABLE processed_events (
    consumer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    source TEXT NOT NULL,
    event_type TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('applied', 'ignored', 'stale', 'rejected')),
    status INTEGER NOT NULL,
    fingerprint BLOB,
    reply_headers TEXT,
    reply_body BLOB,
    occurred_at TEXT,
    processed_at INTEGER NOT NULL DEFAULT (unixepoch()),
    PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX processed_events_processed_at ON processed_events (processed_at);
