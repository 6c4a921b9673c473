\set number random(1, 9223372036854775807)
BEGIN;
INSERT INTO processed_events (consumer, event_id, source, event_type, occurred_at, state, status) VALUES ('shop', 'evt_' || left(md5((:number)::text), 24), 'shop', 'order_created', now(), 'applied', 200) ON CONFLICT DO NOTHING;
INSERT INTO orders (id, customer_id, status, amount_cents) VALUES (md5((:number)::text)::uuid, 'cus_8f14e45fceea', 'created', 4990);
UPDATE processed_events SET reply_headers = '{"content-type":"application/json"}', reply_body = convert_to('{"status":"applied","event_id":"evt_' || left(md5((:number)::text), 24) || '"}', 'UTF8') WHERE consumer = 'shop' AND event_id = 'evt_' || left(md5((:number)::text), 24);
COMMIT;
