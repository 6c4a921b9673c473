//! The line to one queue: takes messages while it is connected, and connects again when it is not.
//!
//! Many messages are on their way at a time, as many as the queue hands out, so that they share
//! transactions. When the connection is lost they go on to their end: what commits takes effect, and its
//! repetition is a duplicate.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::QueueSpec;
use super::queue::{Queue, Subscription, Taken};
use super::settle::{Settled, Settler};
use crate::clock;
use crate::http::ServerState;
use crate::outbox::backoff::{self, Backoff};

/// Pauses between attempts to connect.
const CONNECT_AGAIN: Backoff =
    Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(10) };

/// One source's queue.
pub(super) struct Line {
    spec: Arc<QueueSpec>,
    queue: Arc<dyn Queue>,
    settler: Arc<Settler>,
    grace: Duration,
}

/// Why messages are not taken any more.
enum Ended {
    Stopped,
    Lost(String),
}

impl Line {
    pub(super) fn new(
        spec: QueueSpec,
        queue: Arc<dyn Queue>,
        state: Arc<ServerState>,
        grace: Duration,
    ) -> Self {
        let spec = Arc::new(spec);
        let settler = Arc::new(Settler::new(spec.clone(), state));
        Self { spec, queue, settler, grace }
    }

    /// Until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut failures: u32 = 0;
        while !stop.is_cancelled() {
            let opened = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                opened = self.queue.open() => opened,
            };
            let reason = match opened {
                Ok(subscription) => {
                    failures = 0;
                    self.settler.connected(true);
                    let ended = self.work(subscription, &stop).await;
                    self.settler.connected(false);
                    match ended {
                        Ended::Stopped => return,
                        Ended::Lost(reason) => reason,
                    }
                }
                Err(reason) => reason,
            };
            failures = failures.saturating_add(1);
            self.tell(failures, &reason);
            let pause = CONNECT_AGAIN.pause(failures, backoff::fraction(clock::new_id()));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// The first failure is news; the others are the same story.
    fn tell(&self, failures: u32, reason: &str) {
        let (source, queue, broker) = (&*self.spec.source, &*self.spec.queue, self.spec.broker.url.place());
        if failures == 1 {
            tracing::warn!(source.name = source, queue, broker, "no messages are taken: {reason}");
        } else {
            tracing::debug!(source.name = source, queue, broker, failures, "still no messages: {reason}");
        }
    }

    /// Takes messages over one connection.
    async fn work(&self, mut subscription: Box<dyn Subscription>, stop: &CancellationToken) -> Ended {
        tracing::info!(source.name = &*self.spec.source, queue = &*self.spec.queue, "taking messages");
        let mut flying = JoinSet::new();
        // Those that wait for another attempt need not end theirs when nobody can acknowledge them.
        let session = CancellationToken::new();
        let ended = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ended::Stopped,
                Some(landed) = flying.join_next() => self.landed(landed),
                taken = subscription.next() => match taken {
                    Ok(taken) => {
                        flying.spawn(bring(self.settler.clone(), taken, session.clone()));
                    }
                    Err(reason) => break Ended::Lost(reason),
                },
            }
        };
        session.cancel();
        if matches!(ended, Ended::Stopped) {
            subscription.stop().await;
        }
        let rest = async {
            while let Some(landed) = flying.join_next().await {
                self.landed(landed);
            }
        };
        if tokio::time::timeout(self.grace, rest).await.is_err() {
            tracing::warn!(
                source.name = &*self.spec.source,
                messages = flying.len(),
                "messages were not settled in time; they come again"
            );
        }
        subscription.close().await;
        ended
    }

    fn landed(&self, landed: Result<(), tokio::task::JoinError>) {
        if let Err(error) = landed {
            tracing::error!(%error, source.name = &*self.spec.source, "settling a message ended unexpectedly; it comes again");
        }
    }
}

/// One message to its end.
async fn bring(settler: Arc<Settler>, taken: Taken, session: CancellationToken) {
    let Taken { request, receipt } = taken;
    let _counted = settler.count();
    let mut settling = std::pin::pin!(settler.settle(request, &session));
    let settled = loop {
        tokio::select! {
            settled = &mut settling => break settled,
            () = pause(receipt.keep_every()) => receipt.keep().await,
        }
    };
    match settled {
        Settled::Done => {
            if let Err(reason) = receipt.acknowledge().await {
                tracing::debug!(reason, "a message could not be acknowledged; it comes again");
            }
        }
        Settled::Left => {}
    }
}

/// Waits so long; for ever, if nothing is due.
async fn pause(length: Option<Duration>) {
    match length {
        Some(length) => tokio::time::sleep(length).await,
        None => std::future::pending().await,
    }
}
