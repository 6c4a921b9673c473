-- The email worker's own table; legal on SQLite and PostgreSQL. It has no key on purpose: that a command
-- takes effect once is the inbox's doing, and a second effect would be seen here.
CREATE TABLE email_jobs (
    command_id text NOT NULL,
    invoice_id text NOT NULL,
    template   text NOT NULL,
    status     text NOT NULL CHECK (status IN ('waiting', 'succeeded'))
);
