-- record_migration
INSERT INTO hooklatch.schema_migrations (name, applied_at) VALUES ($1, now())
