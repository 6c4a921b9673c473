-- name: read migrations
SELECT name, applied_at FROM schema_migrations ORDER BY name
