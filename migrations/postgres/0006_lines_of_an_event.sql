-- The ledger's lines of one event, found by a btree. A hash index keeps equal ids in one chain of pages and walks
-- it for each line that comes: an event that was repeated without end slowed the ledger more with every
-- repetition.

-- name: deliveries by event, as before
DROP INDEX hooklatch.deliveries_event_id

-- name: deliveries by event
-- The id's hash: 8 bytes, however long the id, and equal ones share them.
CREATE INDEX deliveries_event_id ON hooklatch.deliveries (hashtextextended(event_id, 0))
