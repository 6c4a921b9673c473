-- The notification service's own table; legal on SQLite and PostgreSQL. It has no key on purpose: that an
-- event takes effect once is the inbox's doing, and a second effect would be seen here.
CREATE TABLE notifications (
    event_id   text NOT NULL,
    invoice_id text NOT NULL,
    template   text NOT NULL
);
