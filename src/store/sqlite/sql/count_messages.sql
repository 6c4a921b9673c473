-- name: count messages
SELECT count(*) FROM outbox
WHERE (?1 IS NULL OR destination = ?1)
    AND (?2 IS NULL OR state IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR aggregate_id = ?3)
    AND (?4 IS NULL OR id IN (SELECT value FROM json_each(?4)))
