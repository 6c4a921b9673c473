-- advance_entities
INSERT INTO hooklatch.entity_versions (consumer, entity, sequence, updated_at)
SELECT new.consumer, new.entity, new.sequence, now()
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS new (consumer, entity, sequence)
ON CONFLICT (consumer, entity) DO UPDATE
SET sequence = excluded.sequence, updated_at = excluded.updated_at
WHERE entity_versions.sequence <= excluded.sequence
RETURNING 1
