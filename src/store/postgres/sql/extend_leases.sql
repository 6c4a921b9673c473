-- extend_leases
UPDATE hooklatch.outbox AS message
SET leased_until = now() + make_interval(secs => $3), next_attempt_at = now() + make_interval(secs => $3)
FROM unnest($1::uuid[], $2::uuid[]) AS held (id, token)
WHERE message.id = held.id AND message.lease_token = held.token
RETURNING message.id
