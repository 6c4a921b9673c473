-- entity_sequences
-- LATERAL with LIMIT: one index lookup an entity, whatever size the planner takes the table for.
SELECT wanted.ordinal - 1 AS ordinal, seen.sequence
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted (consumer, entity, ordinal)
CROSS JOIN LATERAL (
    SELECT sequence FROM hooklatch.entity_versions AS version
    WHERE version.consumer = wanted.consumer AND version.entity = wanted.entity
    LIMIT 1
) AS seen
