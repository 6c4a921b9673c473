-- name: backlog
-- For each destination: what is not sent yet, when the oldest was written, and what was given up.
SELECT counted.destination,
    coalesce(sum(counted.messages) FILTER (WHERE counted.state IN ('new', 'retry', 'parked')), 0) AS unsent,
    coalesce(sum(counted.messages) FILTER (WHERE counted.state IN ('dead', 'blocking')), 0) AS dead,
    (SELECT min(created_at) FROM (
        SELECT * FROM (
            SELECT first.created_at FROM outbox AS first
            WHERE first.destination = counted.destination AND first.state = 'new'
                AND first.state IN ('new', 'retry', 'parked', 'blocking')
            ORDER BY first.next_attempt_at, first.sequence LIMIT 1
        )
        UNION ALL
        SELECT min(tried.created_at) FROM outbox AS tried
        WHERE tried.destination = counted.destination AND tried.state IN ('retry', 'blocking')
            AND tried.state IN ('new', 'retry', 'parked', 'blocking')
    )) AS oldest
FROM (
    SELECT destination, state, count(*) AS messages FROM outbox
    WHERE state IN ('new', 'retry', 'parked', 'blocking')
    GROUP BY destination, state
    UNION ALL
    SELECT destination, state, count(*) FROM outbox
    WHERE state = 'dead' AND state IN ('dead', 'blocking')
    GROUP BY destination, state
) AS counted
GROUP BY counted.destination
ORDER BY counted.destination
