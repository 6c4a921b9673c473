-- backlog
-- For each destination: what is not sent yet, how old the oldest is, and what was given up. The oldest
-- that was never tried comes from the index; what is to be tried again is little, because a destination
-- that fails is not asked for more.
SELECT counted.destination,
       coalesce(sum(counted.messages) FILTER (WHERE counted.state IN ('new', 'retry', 'parked')), 0)::bigint AS unsent,
       coalesce(sum(counted.messages) FILTER (WHERE counted.state IN ('dead', 'blocking')), 0)::bigint AS dead,
       extract(epoch FROM now() - least(
           (SELECT first.created_at FROM hooklatch.outbox AS first
            WHERE first.destination = counted.destination AND first.state = 'new'
            ORDER BY first.next_attempt_at, first.sequence LIMIT 1),
           (SELECT min(tried.created_at) FROM hooklatch.outbox AS tried
            WHERE tried.destination = counted.destination AND tried.state IN ('retry', 'blocking'))
       ))::float8 AS oldest
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
ORDER BY counted.destination
