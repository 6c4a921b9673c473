event AS MATERIALIZED (
    SELECT $9 - 1 + arrived.place AS ordinal, arrived.id, arrived.type, arrived.occurred_at,
           arrived.data::jsonb AS data, arrived.payload::jsonb AS payload, arrived.headers::jsonb AS headers,
           $8::text AS source, arrived.received_at
    FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
        WITH ORDINALITY AS arrived (id, type, occurred_at, data, payload, headers, received_at, place)
)
