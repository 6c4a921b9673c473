//! Fills the tables with millions of rows of the same shape as the live ones.
//!
//! Indexes and keys are taken off, the rows written by one statement, and the indexes built again:
//! minutes become seconds, and the indexes are as a bulk load leaves them, for every target alike.

use anyhow::Result;
use sqlx::{AssertSqlSafe, PgPool};

use super::Store;

/// Days over which the preloaded rows are spread: well inside the retention, so that no pruner
/// touches them.
const DAYS: u32 = 2;

/// One table to fill: its name, and a SELECT list over `n`, the row's number.
struct Filling {
    table: &'static str,
    columns: &'static str,
    values: &'static str,
}

/// Ids as the generator makes them: `evt_` and 24 hex digits, without order.
const FILLINGS: [Filling; 4] = [
    Filling {
        table: "orders",
        columns: "id, customer_id, status, amount_cents",
        values: "md5('order' || n)::uuid, 'cus_8f14e45fceea', 'created', 4990",
    },
    Filling {
        table: "processed_events",
        columns: "consumer, event_id, source, event_type, state, status, reply_headers, reply_body, \
                  occurred_at, processed_at",
        values: "'shop', id, 'shop', 'order_created', 'applied', 200, \
                 '{\"content-type\":\"application/json\"}'::jsonb, \
                 convert_to('{\"status\":\"applied\",\"event_id\":\"' || id || '\"}', 'UTF8'), at, at",
    },
    Filling {
        table: "hooklatch.processed_events",
        columns: "consumer, event_id, source, event_type, state, status, occurred_at, processed_at",
        values: "'shop', id, 'shop', 'order_created', 'applied', 200, at, at",
    },
    // Keys of the ledger ascend with time, as version 7 of UUID does.
    Filling {
        table: "hooklatch.deliveries",
        columns: "delivery_id, ordinal, received_at, source, event_id, event_type, outcome, status, \
                  duration_us, body_bytes, peer",
        values: "(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || \
                 substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid, 0, at, 'shop', id, \
                 'order_created', 'applied', 200, 2000, 340, '127.0.0.1'",
    },
];

/// Puts `rows` rows into every table that is there.
pub(crate) async fn preload(store: &Store, rows: u64, progress: impl Fn(&str)) -> Result<()> {
    let Store::Postgres(pool) = store else { return Ok(()) };
    for filling in &FILLINGS {
        let known: Option<String> =
            sqlx::query_scalar("SELECT to_regclass($1)::text").bind(filling.table).fetch_one(pool).await?;
        if known.is_some() {
            progress(filling.table);
            fill(pool, filling, rows).await?;
        }
    }
    store.analyze().await
}

async fn fill(pool: &PgPool, filling: &Filling, rows: u64) -> Result<()> {
    let Filling { table, columns, values } = filling;
    let keys: Vec<(String, String)> = sqlx::query_as(
        "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint \
         WHERE conrelid = $1::regclass AND contype IN ('p', 'u')",
    )
    .bind(table)
    .fetch_all(pool)
    .await?;
    let indexes: Vec<(String, String)> = sqlx::query_as(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index \
         WHERE indrelid = $1::regclass \
         AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)",
    )
    .bind(table)
    .fetch_all(pool)
    .await?;

    let mut script = String::from("BEGIN;");
    for (name, _) in &keys {
        script += &format!("ALTER TABLE {table} DROP CONSTRAINT {name};");
    }
    for (name, _) in &indexes {
        script += &format!("DROP INDEX {name};");
    }
    script += &format!(
        "INSERT INTO {table} ({columns}) SELECT {values} FROM (\
         SELECT n, 'evt_' || left(md5(n::text), 24) AS id, \
         now() - interval '{DAYS} days' * (1 - n::float8 / {rows}) AS at \
         FROM generate_series(1, {rows}) AS n) AS numbered;"
    );
    for (name, definition) in &keys {
        script += &format!("ALTER TABLE {table} ADD CONSTRAINT {name} {definition};");
    }
    for (_, definition) in &indexes {
        script += &format!("{definition};");
    }
    script += "COMMIT";
    sqlx::raw_sql(AssertSqlSafe(script)).execute(pool).await?;
    Ok(())
}
