-- backlog
-- For each destination: what is not sent yet, how old the oldest is, how old all but one in twenty of it
-- are at most, and what was given up. The oldest that was never tried comes from the index; what is to be
-- tried again is little, because a destination that fails is not asked for more.
--
-- For the 95th percentile the index is walked over the oldest twentieth, and the table is asked for one
-- row. The messages of a state stand there in the order they were written; one that was given back or
-- revived stands where that happened. A partial index is used only where its own condition is written out
-- or follows from constants.
SELECT waiting.destination, waiting.unsent, waiting.dead,
       extract(epoch FROM now() - least(
           (SELECT first.created_at FROM hooklatch.outbox AS first
            WHERE first.destination = waiting.destination AND first.state = 'new'
            ORDER BY first.next_attempt_at, first.sequence LIMIT 1),
           (SELECT min(tried.created_at) FROM hooklatch.outbox AS tried
            WHERE tried.destination = waiting.destination AND tried.state IN ('retry', 'blocking'))
       ))::float8 AS oldest,
       (SELECT (SELECT extract(epoch FROM now() - message.created_at)::float8 FROM hooklatch.outbox AS message
                WHERE message.destination = waiting.destination AND message.state = place.state
                  AND message.next_attempt_at = place.next_attempt_at AND message.sequence = place.sequence
                  AND message.state IN ('new', 'retry', 'parked', 'blocking'))
        FROM (
            SELECT oldest.state, oldest.next_attempt_at, oldest.sequence
            FROM (
                (SELECT state, next_attempt_at, sequence FROM hooklatch.outbox
                 WHERE destination = waiting.destination AND state = 'new'
                 ORDER BY next_attempt_at, sequence LIMIT waiting.unsent / 20 + 1)
                UNION ALL
                (SELECT state, next_attempt_at, sequence FROM hooklatch.outbox
                 WHERE destination = waiting.destination AND state = 'parked'
                 ORDER BY next_attempt_at, sequence LIMIT waiting.unsent / 20 + 1)
                UNION ALL
                (SELECT state, next_attempt_at, sequence FROM hooklatch.outbox
                 WHERE destination = waiting.destination AND state = 'retry'
                 ORDER BY sequence LIMIT waiting.unsent / 20 + 1)
            ) AS oldest
            ORDER BY oldest.sequence LIMIT 1 OFFSET waiting.unsent / 20
        ) AS place) AS age_p95
FROM (
    SELECT counted.destination,
           coalesce(sum(counted.messages) FILTER (WHERE counted.state IN ('new', 'retry', 'parked')), 0)::bigint AS unsent,
           coalesce(sum(counted.messages) FILTER (WHERE counted.state IN ('dead', 'blocking')), 0)::bigint AS dead
    FROM (
        SELECT destination, state, count(*) AS messages FROM hooklatch.outbox
        WHERE state IN ('new', 'retry', 'parked', 'blocking')
        GROUP BY destination, state
        UNION ALL
        SELECT destination, state, count(*) FROM hooklatch.outbox
        WHERE state = 'dead' AND state IN ('dead', 'blocking')
        GROUP BY destination, state
    ) AS counted
    GROUP BY counted.destination
) AS waiting
ORDER BY waiting.destination
