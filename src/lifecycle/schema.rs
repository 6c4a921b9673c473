//! Is the database there, and its schema the one that this program works with?
//!
//! What may pass is waited for; a schema that does not fit is an error with the way out.

use std::sync::Arc;
use std::time::Duration;

use crate::app::Awaited;
use crate::store::{MigrationStatus, Store, StoreError, StoreErrorKind};

/// Pauses between two attempts to reach the database at start: doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(15);

/// Why the schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the database lacks {}: run `hooklatch migrate`, or set database.auto_migrate = true", names(.0))]
    Pending(Vec<String>),
    #[error("the database has {}, which this version does not know: run a newer hooklatch", names(.0))]
    Newer(Vec<String>),
    #[error("cannot use the database")]
    Store(#[from] StoreError),
}

impl SchemaError {
    /// Whether trying again may help.
    pub(super) fn may_pass(&self) -> bool {
        use StoreErrorKind::{Contention, LockTimeout, StatementTimeout, Unavailable};
        match self {
            Self::Store(error) => {
                matches!(error.kind, Unavailable | Contention | LockTimeout | StatementTimeout)
            }
            Self::Pending(_) | Self::Newer(_) => false,
        }
    }
}

/// Checks the schema; applies what is missing if that is wanted.
///
/// # Errors
/// When it does not fit, or the database does not answer.
pub async fn prepare_schema(store: &dyn Store, auto_migrate: bool) -> Result<(), SchemaError> {
    let migrations = store.migrations().await?;
    let unknown = named(&migrations, |migration| !migration.known);
    if !unknown.is_empty() {
        return Err(SchemaError::Newer(unknown));
    }
    let pending = named(&migrations, |migration| migration.applied_at.is_none());
    if pending.is_empty() {
        return Ok(());
    }
    if !auto_migrate {
        return Err(SchemaError::Pending(pending));
    }
    for name in store.migrate().await? {
        tracing::info!(migration.name = name, "migration applied");
    }
    Ok(())
}

/// What must be done before deliveries can be taken.
pub(super) struct Preparation {
    pub(super) store: Arc<dyn Store>,
    /// Set when the database could not be reached when the parts were built.
    pub(super) awaited: Option<Awaited>,
    pub(super) auto_migrate: bool,
}

impl Preparation {
    pub(super) async fn attempt(&self) -> Result<(), SchemaError> {
        if let Some(awaited) = &self.awaited {
            awaited.attempt().await?;
        }
        prepare_schema(&*self.store, self.auto_migrate).await
    }

    /// Tries until the database answers. `error` is why the first attempt failed.
    pub(super) async fn wait(&self, mut error: SchemaError) -> Result<(), SchemaError> {
        let mut pause = FIRST_PAUSE;
        loop {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                retry.seconds = pause.as_secs_f32(),
                "the database does not answer; deliveries get 503 until it does"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
            match self.attempt().await {
                Err(again) if again.may_pass() => error = again,
                result => return result,
            }
        }
    }
}

fn named(migrations: &[MigrationStatus], which: impl Fn(&MigrationStatus) -> bool) -> Vec<String> {
    migrations.iter().filter(|migration| which(migration)).map(|migration| migration.name.clone()).collect()
}

fn names(migrations: &[String]) -> String {
    match migrations {
        [one] => format!("the migration {one}"),
        many => format!("{} migrations ({})", many.len(), many.join(", ")),
    }
}
