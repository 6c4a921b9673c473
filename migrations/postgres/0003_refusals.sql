-- What the ledger keeps of deliveries that were refused before anything of them was kept.

-- name: headers of refused deliveries
-- A JSON array of [name, value]; NULL for deliveries that were not refused. Holds no secret.
ALTER TABLE hooklatch.deliveries ADD COLUMN headers text
