-- name: outbox payload
SELECT CAST(payload AS BLOB) AS payload FROM outbox WHERE id = ?1
