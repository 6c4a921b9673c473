-- claim_messages
-- Claims what is due for one destination: messages never tried and messages to try again, each up to a
-- limit of its own. One message of an aggregate at a time: what waits for an earlier one is parked, and
-- comes back when that one is settled.
--
-- A message is parked under a lock on the one it waits for, which a settlement must wait for: a message
-- is never parked behind one that is settled already. SKIP LOCKED: who is being settled just now holds
-- nobody back for long; the message stays where it is until the next claim.
--
-- Written so that the planner, who does not know how few are asked for, has no choice but the indexes:
-- rows are named by arrays, and OFFSET 0 keeps it from reading the whole table into a hash.
WITH due_new AS MATERIALIZED (
    SELECT id, aggregate_id, sequence, false AS expired FROM hooklatch.outbox
    WHERE destination = $1 AND state = 'new' AND next_attempt_at <= now()
    ORDER BY next_attempt_at, sequence
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), due_retry AS MATERIALIZED (
    SELECT id, aggregate_id, sequence, lease_token IS NOT NULL AS expired FROM hooklatch.outbox
    WHERE destination = $1 AND state = 'retry' AND next_attempt_at <= now()
    ORDER BY next_attempt_at, sequence
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT due.id, due.aggregate_id, due.sequence, due.expired,
           due.aggregate_id IS NOT NULL AND EXISTS (
               SELECT FROM hooklatch.outbox AS earlier
               WHERE earlier.destination = $1 AND earlier.aggregate_id = due.aggregate_id
                 AND earlier.sequence < due.sequence
                 AND earlier.state IN ('new', 'retry', 'parked', 'blocking')
               OFFSET 0
           ) AS waits,
           -- A later one is on its way: this one was committed after it, or was dead.
           due.aggregate_id IS NOT NULL AND EXISTS (
               SELECT FROM hooklatch.outbox AS other
               WHERE other.destination = $1 AND other.aggregate_id = due.aggregate_id
                 AND other.lease_token IS NOT NULL AND other.leased_until > now()
               OFFSET 0
           ) AS overtaken
    FROM (SELECT * FROM due_new UNION ALL SELECT * FROM due_retry) AS due
), parked AS (
    UPDATE hooklatch.outbox AS message
    SET state = 'parked', lease_token = NULL, leased_until = NULL
    WHERE message.id = ANY (ARRAY(
        SELECT due.id
        FROM due
        CROSS JOIN LATERAL (
            SELECT FROM hooklatch.outbox AS earlier
            WHERE earlier.destination = $1 AND earlier.aggregate_id = due.aggregate_id
              AND earlier.sequence < due.sequence
              AND earlier.state IN ('new', 'retry', 'parked', 'blocking')
            ORDER BY earlier.sequence
            LIMIT 1
            FOR SHARE SKIP LOCKED
        ) AS earlier
        WHERE due.waits
    ))
    RETURNING 1
), claimed AS (
    UPDATE hooklatch.outbox AS message
    SET state = 'retry', attempts = attempts + 1, lease_token = $4,
        leased_until = now() + make_interval(secs => $5), next_attempt_at = now() + make_interval(secs => $5)
    WHERE message.id = ANY (ARRAY(SELECT id FROM due WHERE NOT waits AND NOT overtaken))
      -- Parked first: a row this statement has changed cannot be locked any more.
      AND (SELECT count(*) FROM parked) >= 0
    RETURNING message.id, message.aggregate_id, message.sequence, message.event_type, message.content_type,
              message.headers, message.payload, message.traceparent, message.hops, message.attempts,
              extract(epoch FROM now() - message.created_at)::float8 AS age
)
SELECT (SELECT count(*) FROM parked) AS parked,
       (SELECT count(*) FROM due WHERE expired AND NOT waits AND NOT overtaken) AS expired, claimed.*
FROM (SELECT) AS always LEFT JOIN claimed ON true
ORDER BY claimed.sequence
