//! What an operator has chosen: counted first, agreed to, then worked off a page at a time. The same for
//! dead letters and for messages; which ones is theirs to say.

use uuid::Uuid;

use crate::store::Store;

use super::failure::Failure;

/// An id that hooklatch made; `way_out` says what to write instead of anything else.
pub(super) fn id(text: &str, way_out: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| format!("an id looks like 01890a5d-ac96-774b-bcce-b302099a8057; {way_out}"))
}

/// Things that were chosen, by id or by what they have in common.
pub(super) trait Selection {
    /// What they are called, for one and for many.
    const CALLED: &'static str;
    /// Where a page ends and the next one begins.
    type Place;

    /// How many there are now.
    async fn count(&self, store: &dyn Store) -> Result<u64, Failure>;
    /// The ids of the first page, or of the one after `after`, and where it ends; `None` after the last.
    async fn page(
        &self,
        store: &dyn Store,
        after: Option<Self::Place>,
    ) -> Result<Option<(Vec<Uuid>, Self::Place)>, Failure>;
}

/// How many were chosen, once it is agreed that `what` is done with them: with `yes`, or when the choice
/// itself says enough. Nothing chosen is no error, and nothing to do.
pub(super) async fn agreed<S: Selection>(
    chosen: &S,
    store: &dyn Store,
    agrees: impl FnOnce(u64) -> bool,
    what: impl FnOnce(String) -> String,
) -> Result<Option<u64>, Failure> {
    let count = chosen.count(store).await?;
    if count == 0 {
        say!("there are no such {}", S::CALLED.replace("(s)", "s"));
        return Ok(None);
    }
    confirm(agrees(count), &what(format!("{count} {}", S::CALLED)))?;
    Ok(Some(count))
}

/// Does `work` with all that was chosen, a page at a time; returns the sum of what it says.
pub(super) async fn work_off<S: Selection>(
    chosen: &S,
    store: &dyn Store,
    work: impl AsyncFn(&[Uuid]) -> Result<u64, Failure>,
) -> Result<u64, Failure> {
    let (mut after, mut done) = (None, 0);
    while let Some((ids, end)) = chosen.page(store, after).await? {
        done += work(&ids).await?;
        after = Some(end);
    }
    Ok(done)
}

/// Goes on only with `--yes`; otherwise says what would happen.
pub(super) fn confirm(yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    Err(Failure::usage(format!("this would {what}; add --yes to do it")))
}
