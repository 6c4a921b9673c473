-- What the peers on PostgreSQL keep: as wide as hooklatch's table, with the same indexes.
CREATE TABLE processed_events (
    consumer text NOT NULL,
    event_id text NOT NULL,
    source text NOT NULL,
    event_type text NOT NULL,
    state text NOT NULL CHECK (state IN ('applied', 'ignored', 'stale', 'rejected')),
    status smallint NOT NULL,
    fingerprint bytea,
    reply_headers jsonb,
    reply_body bytea,
    occurred_at timestamptz,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX processed_events_processed_at ON processed_events (processed_at);
