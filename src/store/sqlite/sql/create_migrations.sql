-- name: create schema_migrations
CREATE TABLE IF NOT EXISTS schema_migrations (
    name       TEXT    NOT NULL PRIMARY KEY,
    applied_at INTEGER NOT NULL
) STRICT
