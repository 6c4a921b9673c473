-- The customer's own table, which the handlers of deploy/hooklatch.toml write to.
CREATE TABLE orders (
    id          text PRIMARY KEY,
    customer_id text NOT NULL,
    status      text NOT NULL CHECK (status IN ('created', 'paid'))
);
