-- name: probe the database
SELECT count(*) FROM sqlite_schema
