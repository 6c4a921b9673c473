//! Events that the short way has left out, kept as rejected beside the next batch.
//!
//! To keep them takes a statement and a commit of its own, and the batch that they were left out of is
//! answered already: the writer need not wait. One such statement is under way at a time. Until it
//! is committed nothing of these events is stored, and nobody has been told anything.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::event::Delivery;
use crate::inbox::apply::Terms;
use crate::inbox::at_once::reject_at_once;
use crate::inbox::slots::Fate;
use crate::inbox::writer::{Job, settle};
use crate::store::Store;

/// What one writer has set aside.
pub(super) struct Aside {
    store: Arc<dyn Store>,
    terms: Terms,
    under_way: Option<JoinHandle<Vec<Job>>>,
}

impl Aside {
    pub fn new(store: Arc<dyn Store>, terms: Terms) -> Self {
        Self { store, terms, under_way: None }
    }

    pub fn is_empty(&self) -> bool {
        self.under_way.is_none()
    }

    /// Takes deliveries of single events that the handler failed on, when those before them are settled;
    /// gives back what could not be settled of these.
    pub async fn take(&mut self, failed: Vec<(Job, Fate)>) -> Vec<Job> {
        let rest = self.rest().await;
        let (store, terms) = (self.store.clone(), self.terms);
        self.under_way = Some(tokio::spawn(async move { keep(&*store, &terms, failed).await }));
        rest
    }

    /// Waits for what is under way, and gives back what could not be settled: another transaction has
    /// brought an event in meanwhile, or the store has failed. Can be dropped and asked again.
    pub async fn rest(&mut self) -> Vec<Job> {
        let Some(under_way) = &mut self.under_way else { return Vec::new() };
        let rest = under_way.await;
        self.under_way = None;
        rest.unwrap_or_else(|error| {
            // Whoever waits is told that the delivery was not settled.
            tracing::error!(%error, "rejected events were not kept");
            Vec::new()
        })
    }
}

async fn keep(store: &dyn Store, terms: &Terms, failed: Vec<(Job, Fate)>) -> Vec<Job> {
    let (jobs, fates): (Vec<Job>, Vec<Fate>) = failed.into_iter().unzip();
    let deliveries: Vec<&Delivery> = jobs.iter().map(|job| &job.delivery).collect();
    let began = tokio::time::Instant::now();
    let answers = reject_at_once(store, &deliveries, fates, terms).await;
    let mut rest = Vec::new();
    for (job, composed) in jobs.into_iter().zip(answers) {
        match composed {
            Some(composed) => settle(job, composed, began),
            None => rest.push(job),
        }
    }
    rest
}
