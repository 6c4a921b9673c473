//! `hooklatch migrate`: brings the database's schema up to date.

use clap::Args;

use crate::store::MigrationStatus;

use super::Failure;
use super::config_file::ConfigFile;
use super::table;
use super::workplace::Workplace;

/// Apply the migrations that are missing. Safe to run from several machines at once.
#[derive(Debug, Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    file: ConfigFile,
    /// Only show what is applied and what is missing; exit code 1 if something is
    #[arg(long)]
    status: bool,
}

impl Migrate {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let place = Workplace::open_or_make(&self.file).await?;
        let result = if self.status { show(&place).await } else { apply(&place).await };
        place.store.close().await;
        result
    }
}

async fn apply(place: &Workplace) -> Result<(), Failure> {
    let applied = place.store.migrate().await?;
    for name in &applied {
        say!("applied {name}");
    }
    say!(
        "{} is up to date ({})",
        place.config.database.url,
        if applied.is_empty() {
            "nothing was missing".to_owned()
        } else {
            format!("{} applied", applied.len())
        }
    );
    Ok(())
}

async fn show(place: &Workplace) -> Result<(), Failure> {
    let migrations = place.store.migrations().await?;
    let mut rows = table::new(["migration", "applied"]);
    for migration in &migrations {
        rows.add_row([migration.name.clone(), state(migration)]);
    }
    say!("{rows}");
    if migrations.iter().any(|migration| !migration.known) {
        return Err(Failure::new(
            "the database is newer than this program; run the newer hooklatch that migrated it",
        ));
    }
    if migrations.iter().any(|migration| migration.applied_at.is_none()) {
        return Err(Failure::new("migrations are missing; run `hooklatch migrate`"));
    }
    Ok(())
}

fn state(migration: &MigrationStatus) -> String {
    match (migration.applied_at, migration.known) {
        (Some(at), true) => table::time(at),
        (Some(at), false) => format!("{}, by a newer hooklatch", table::time(at)),
        (None, _) => "missing".to_owned(),
    }
}
