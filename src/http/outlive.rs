//! Work that goes on when nobody waits for it any more.
//!
//! A sender that hangs up takes its request's future with it. What was handed to the inbox is
//! settled all the same, and the ledger must learn of it: the rest of the work moves to a runtime
//! of its own. While the sender waits, that costs one allocation and no task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs `work` to its end, here if the caller waits, else on `runtime`.
pub(super) fn outlive<F>(runtime: Handle, work: F) -> Outlive<F>
where
    F: Future + Send + 'static,
{
    Outlive { work: Some(Box::pin(work)), runtime }
}

pub(super) struct Outlive<F: Future + Send + 'static> {
    work: Option<Pin<Box<F>>>,
    runtime: Handle,
}

impl<F: Future + Send + 'static> Future for Outlive<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out first: work that panics is not polled again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F: Future + Send + 'static> Drop for Outlive<F> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.runtime.spawn(async move {
                work.await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_that_is_awaited_returns_its_output() {
        assert_eq!(outlive(Handle::current(), async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn work_goes_on_after_its_caller_has_gone() {
        let (go, gone) = oneshot::channel::<()>();
        let (done, finished) = oneshot::channel();
        let mut work = Box::pin(outlive(Handle::current(), async move {
            gone.await.expect("the test tells when to go on");
            done.send("settled").expect("the test waits");
        }));
        assert!(futures_util::poll!(&mut work).is_pending());
        drop(work);
        go.send(()).expect("the work waits");
        assert_eq!(finished.await, Ok("settled"));
    }
}
