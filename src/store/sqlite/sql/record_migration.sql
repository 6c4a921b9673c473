-- name: record a migration
INSERT INTO schema_migrations (name, applied_at) VALUES (?1, ?2)
