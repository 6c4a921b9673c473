-- name: keep a dead letter
INSERT INTO dead_letters
    (id, consumer, event_id, source, event_type, cause, reason, attempts, target, headers, body,
     received_at, died_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (consumer, event_id) DO UPDATE
SET source = excluded.source, event_type = excluded.event_type, cause = excluded.cause,
    reason = excluded.reason, attempts = dead_letters.attempts + excluded.attempts,
    target = excluded.target, headers = excluded.headers, body = excluded.body,
    received_at = excluded.received_at, died_at = excluded.died_at
