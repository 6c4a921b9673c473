-- name: note attempts
INSERT INTO outbox_attempts (message_id, attempt, ended_at, latency_us, status, error, answer, answer_bytes)
SELECT value ->> 'id', value ->> 'attempt', ?2, value ->> 'latency_us', value ->> 'status', value ->> 'error',
    unhex(value ->> 'answer'), value ->> 'answer_bytes'
FROM json_each(?1)
WHERE true
ON CONFLICT DO NOTHING
