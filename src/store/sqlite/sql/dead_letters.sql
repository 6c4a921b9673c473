-- name: read dead letters
SELECT id, consumer, event_id, source, event_type, cause, reason, attempts, target, headers, body,
    received_at, died_at
FROM dead_letters
WHERE id > coalesce(?1, '') AND (?2 IS NULL OR id = ?2) AND (?3 IS NULL OR source = ?3)
    AND (?4 IS NULL OR event_id = ?4)
ORDER BY id
LIMIT ?5
