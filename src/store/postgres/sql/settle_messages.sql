-- settle_messages
-- Writes what became of attempts. Whoever does not hold the lease any more changes nothing.
WITH result AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::float8[], $5::smallint[], $6::text[],
                         $7::bytea[], $8::bigint[], $9::bigint[])
        AS result (id, token, state, delay, status, error, answer, answer_bytes, latency_us)
), settled AS (
    UPDATE hooklatch.outbox AS message
    SET state = result.state, lease_token = NULL, leased_until = NULL,
        next_attempt_at = now() + make_interval(secs => result.delay),
        sent_at = CASE WHEN result.state = 'sent' THEN now() END,
        dead_at = CASE WHEN result.state IN ('dead', 'blocking') THEN now() END,
        last_status = result.status, last_error = result.error, answer_bytes = result.answer_bytes
    FROM result
    WHERE message.id = result.id AND message.lease_token = result.token
    RETURNING message.id, result.token, message.destination, message.aggregate_id, message.attempts,
              message.state
), noted AS (
    INSERT INTO hooklatch.outbox_attempts
        (message_id, attempt, ended_at, latency_us, status, error, answer, answer_bytes)
    SELECT settled.id, settled.attempts, now(), result.latency_us, result.status, result.error,
           result.answer, result.answer_bytes
    FROM settled JOIN result ON result.id = settled.id AND result.token = settled.token
    WHERE result.error IS NOT NULL
    ON CONFLICT DO NOTHING
)
SELECT id, CASE WHEN state IN ('sent', 'dead') THEN destination END AS destination, aggregate_id FROM settled
