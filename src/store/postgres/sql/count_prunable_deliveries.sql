-- count_prunable_deliveries
SELECT count(*) FROM hooklatch.deliveries
WHERE delivery_id < (lpad(to_hex((extract(epoch FROM now() - make_interval(secs => $1)) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
