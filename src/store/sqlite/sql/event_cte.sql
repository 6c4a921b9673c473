event AS MATERIALIZED (
    SELECT value ->> 'ordinal' AS ordinal, value ->> 'id' AS id, value ->> 'type' AS type,
        value ->> 'occurred_at' AS occurred_at, value ->> 'data' AS data, value ->> 'payload' AS payload,
        value ->> 'headers' AS headers, value ->> 'source' AS source, value ->> 'received_at' AS received_at
    FROM json_each(?1)
)
