-- The shop's own table; legal on SQLite and PostgreSQL.
CREATE TABLE invoices (
    id           text   PRIMARY KEY,
    status       text   NOT NULL CHECK (status IN ('issued', 'paid')),
    amount_cents bigint NOT NULL,
    paid_by      text
);

-- Which invoices an event has paid.
CREATE INDEX invoices_paid_by ON invoices (paid_by);

-- Some to pay.
INSERT INTO invoices (id, status, amount_cents) VALUES
    ('inv_1', 'issued', 4990), ('inv_2', 'issued', 1990), ('inv_3', 'issued', 990);
