-- The business table of every target on PostgreSQL.
CREATE TABLE orders (
    id uuid PRIMARY KEY,
    customer_id text NOT NULL,
    status text NOT NULL,
    amount_cents bigint NOT NULL CHECK (amount_cents > 0)
);
