-- create_migrations
CREATE TABLE IF NOT EXISTS hooklatch.schema_migrations (
    name       text        NOT NULL PRIMARY KEY,
    applied_at timestamptz NOT NULL
)
