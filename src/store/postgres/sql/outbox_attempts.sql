-- outbox_attempts
SELECT attempt, ended_at, latency_us, status, error, answer, answer_bytes
FROM hooklatch.outbox_attempts
WHERE message_id = $1
ORDER BY ended_at, attempt
