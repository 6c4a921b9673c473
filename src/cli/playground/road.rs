//! The road from the relay to the packing station: passes bytes on, and can lose what comes back.
//!
//! That is how a delivery arrives without its sender ever knowing. It knows nothing of HTTP, and belongs to
//! the playground alone.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const CHUNK_BYTES: usize = 8 * 1024;
const POLL: Duration = Duration::from_millis(10);

/// A listening port that leads elsewhere. Closed when dropped.
#[derive(Debug)]
pub(super) struct Road {
    pub(super) address: SocketAddr,
    target: watch::Sender<Option<SocketAddr>>,
    losses: Arc<Losses>,
    passing: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Losses {
    wanted: AtomicBool,
    /// Parts of answers that were lost.
    lost: AtomicUsize,
}

impl Road {
    /// A road that leads nowhere yet.
    pub(super) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (target, leads_to) = watch::channel(None);
        let losses = Arc::new(Losses::default());
        let shared = losses.clone();
        let passing = tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let to = *leads_to.borrow();
                if let Some(to) = to {
                    // A connection that breaks is its sender's matter: it delivers again.
                    tokio::spawn(pass(from, to, shared.clone()));
                }
            }
        });
        Ok(Self { address, target, losses, passing })
    }

    pub(super) fn leads_to(&self, receiver: SocketAddr) {
        self.target.send_replace(Some(receiver));
    }

    /// From now on answers are lost, or pass.
    pub(super) fn lose_answers(&self, lose: bool) {
        self.losses.wanted.store(lose, Ordering::SeqCst);
    }

    /// Waits until an answer was lost; false if none was in time.
    pub(super) async fn has_lost_an_answer(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while self.losses.lost.load(Ordering::SeqCst) == 0 {
            if Instant::now() > deadline {
                return false;
            }
            sleep(POLL).await;
        }
        true
    }
}

impl Drop for Road {
    fn drop(&mut self) {
        self.passing.abort();
    }
}

async fn pass(from: TcpStream, to: SocketAddr, losses: Arc<Losses>) -> io::Result<()> {
    let (mut asked, answers) = from.into_split();
    let (answered, mut asks) = TcpStream::connect(to).await?.into_split();
    let back = tokio::spawn(pass_back(answered, answers, losses));
    copy(&mut asked, &mut asks).await?;
    asks.shutdown().await?;
    back.await.map_err(io::Error::other)?
}

async fn pass_back(
    mut answered: impl AsyncRead + Unpin,
    mut answers: OwnedWriteHalf,
    losses: Arc<Losses>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = answered.read(&mut chunk).await?;
        if read == 0 {
            return answers.shutdown().await;
        }
        if losses.wanted.load(Ordering::SeqCst) {
            losses.lost.fetch_add(1, Ordering::SeqCst);
        } else {
            answers.write_all(&chunk[..read]).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_asked_arrives_although_the_answer_is_lost() {
        const WITHIN: Duration = Duration::from_secs(10);
        let receiver = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let road = Road::open().await.expect("a port");
        road.leads_to(receiver.local_addr().expect("bound"));
        let mut sender = TcpStream::connect(road.address).await.expect("the road is open");
        sender.write_all(b"ask").await.expect("sent");
        let (mut taken, _) = receiver.accept().await.expect("the road leads here");
        let mut bytes = [0; 3];
        taken.read_exact(&mut bytes).await.expect("it arrives");
        assert_eq!(&bytes, b"ask");

        road.lose_answers(true);
        taken.write_all(b"one").await.expect("sent");
        assert!(road.has_lost_an_answer(WITHIN).await);
        road.lose_answers(false);
        taken.write_all(b"two").await.expect("sent");
        sender.read_exact(&mut bytes).await.expect("it comes back");
        assert_eq!(&bytes, b"two");
    }
}
