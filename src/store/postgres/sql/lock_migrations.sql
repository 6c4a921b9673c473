-- lock_migrations
-- Replicas that start together migrate one after another; readers are not kept waiting.
LOCK TABLE hooklatch.schema_migrations IN SHARE ROW EXCLUSIVE MODE
