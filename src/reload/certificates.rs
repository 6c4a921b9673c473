//! The certificates of the listeners: read again when their files change, watched for their end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::watched::Files;
use super::{Cause, Watched, blocking};
use crate::clock::Clock;
use crate::telemetry::metrics::Metrics;
use crate::tls::{Freshness, TlsListener};

/// How often an end that comes near is told.
const TELL_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long after files that cannot be used they are tried again, changed or not.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The listeners that end TLS.
pub(crate) struct Certificates {
    watched: Vec<Listener>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

struct Listener {
    /// What the configuration calls it: `http.tls`.
    name: &'static str,
    tls: Arc<TlsListener>,
    files: Watched,
    told_at: Option<Instant>,
    failed: Option<(Instant, String)>,
}

impl Certificates {
    pub(crate) fn new(
        listeners: impl IntoIterator<Item = (&'static str, Arc<TlsListener>)>,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Self {
        let watched = listeners.into_iter().map(|(name, tls)| {
            metrics.reload.certificate(name, tls.not_after());
            let files = tls.files();
            let paths = [&files.certificate, &files.key].into_iter().chain(&files.client_ca).cloned();
            let files = Arc::new(Mutex::new(Files::new(paths.collect())));
            Listener { name, tls, files, told_at: None, failed: None }
        });
        Self { watched: watched.collect(), clock, metrics }
    }

    pub(super) async fn look(&mut self, cause: Cause) {
        for listener in &mut self.watched {
            listener.look(cause, &self.clock, &self.metrics).await;
        }
    }
}

impl Listener {
    async fn look(&mut self, cause: Cause, clock: &Clock, metrics: &Metrics) {
        let again =
            cause == Cause::Signal || self.failed.as_ref().is_some_and(|(at, _)| at.elapsed() > TRY_AGAIN);
        let (tls, files, now) = (self.tls.clone(), self.files.clone(), clock.now());
        let read = blocking(move || {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            if !files.have_changed() && !again {
                return None;
            }
            files.note_reading();
            Some(tls.reload(now))
        })
        .await
        .flatten();
        match read {
            Some(Ok(has_changed)) => {
                let was_failed = self.failed.take().is_some();
                if cause == Cause::Signal || was_failed || has_changed {
                    let freshness = self.tls.freshness(now);
                    tracing::info!(config.key = self.name, "certificate read again: {freshness}");
                    self.told_at = None;
                    metrics.reload.certificate(self.name, self.tls.not_after());
                    metrics.reload.applied(self.name);
                }
            }
            Some(Err(problem)) => self.refuse(problem, cause, metrics),
            None => {}
        }
        self.tell(self.tls.freshness(now));
    }

    fn refuse(&mut self, problem: String, cause: Cause, metrics: &Metrics) {
        let is_news = self.failed.as_ref().is_none_or(|(_, known)| *known != problem);
        if is_news || cause == Cause::Signal {
            tracing::error!(
                config.key = self.name,
                "the certificate in use stays, since the new one cannot be used: {problem}"
            );
            metrics.reload.refused(self.name);
        }
        self.failed = Some((Instant::now(), problem));
    }

    fn tell(&mut self, freshness: Freshness) {
        if matches!(freshness, Freshness::Good { .. })
            || self.told_at.is_some_and(|told| told.elapsed() < TELL_EVERY)
        {
            return;
        }
        self.told_at = Some(Instant::now());
        if freshness.is_valid() {
            tracing::warn!(config.key = self.name, "{freshness}");
        } else {
            tracing::error!(config.key = self.name, "{freshness}; clients refuse it");
        }
    }
}
