-- read_migrations
SELECT name, applied_at FROM hooklatch.schema_migrations ORDER BY name
