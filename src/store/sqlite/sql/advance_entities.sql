-- name: advance entities
INSERT INTO entity_versions (consumer, entity, sequence, updated_at)
SELECT value ->> 0, value ->> 1, value ->> 2, ?2
FROM json_each(?1)
WHERE true
ON CONFLICT (consumer, entity) DO UPDATE
SET sequence = excluded.sequence, updated_at = excluded.updated_at
WHERE entity_versions.sequence <= excluded.sequence
