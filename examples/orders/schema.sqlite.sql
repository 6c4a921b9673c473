-- The shop's own tables on SQLite: they belong to the application, hooklatch only runs the
-- handlers over them. The constraints are part of the design: an event that breaks one is refused
-- for good, with nothing of it left behind. STRICT makes SQLite as exact about types as PostgreSQL.

CREATE TABLE orders (
    id           TEXT    PRIMARY KEY NOT NULL CHECK (length(id) = 36),
    event_id     TEXT    NOT NULL,
    customer_id  TEXT    NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('created', 'shipped')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0)
) STRICT;

CREATE INDEX orders_event_id ON orders (event_id);

CREATE TABLE invoices (
    id           TEXT    PRIMARY KEY NOT NULL,
    order_id     TEXT    NOT NULL UNIQUE REFERENCES orders (id),
    status       TEXT    NOT NULL CHECK (status IN ('issued', 'paid')),
    amount_cents INTEGER NOT NULL,
    paid_by      TEXT
) STRICT;

CREATE TABLE customer_totals (
    customer_id  TEXT    PRIMARY KEY NOT NULL,
    orders       INTEGER NOT NULL,
    amount_cents INTEGER NOT NULL
) STRICT;

CREATE TABLE customers (
    id      TEXT    PRIMARY KEY NOT NULL,
    email   TEXT    NOT NULL,
    plan    TEXT    NOT NULL,
    version INTEGER NOT NULL
) STRICT;

CREATE TABLE shipments (
    id       TEXT PRIMARY KEY NOT NULL,
    order_id TEXT NOT NULL REFERENCES orders (id),
    carrier  TEXT NOT NULL
) STRICT;

CREATE TABLE payments (
    id           INTEGER PRIMARY KEY,
    event_id     TEXT    NOT NULL,
    invoice_id   TEXT    NOT NULL UNIQUE REFERENCES invoices (id),
    amount_cents INTEGER NOT NULL
) STRICT;
