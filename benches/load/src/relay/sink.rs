//! Where relays deliver to: takes POSTs over real connections, answers 200 at once, and remembers which
//! ids came when. Runs on a thread of its own until it is dropped.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use uuid::Uuid;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const MOST_HEADERS: usize = 32;
const READ_BYTES: usize = 4096;

/// A message that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) id: Uuid,
    pub(super) at: Instant,
}

#[derive(Debug)]
pub(super) struct Sink {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    /// Dropped with the sink, which ends its thread.
    _alive: oneshot::Sender<()>,
}

impl Sink {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let (alive, ended) = oneshot::channel();
        let seen = Arc::clone(&arrivals);
        std::thread::Builder::new().name("sink".into()).spawn(move || serve(listener, ended, &seen))?;
        Ok(Self { address, arrivals, _alive: alive })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/in", self.address)
    }

    /// Forgets what came.
    pub(super) fn empty(&self) {
        locked(&self.arrivals).clear();
    }

    pub(super) fn count(&self) -> usize {
        locked(&self.arrivals).len()
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        locked(&self.arrivals).clone()
    }
}

fn locked(arrivals: &Mutex<Vec<Arrival>>) -> MutexGuard<'_, Vec<Arrival>> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: TcpListener, ended: oneshot::Receiver<()>, arrivals: &Arc<Mutex<Vec<Arrival>>>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        let accepting = async {
            while let Ok((stream, _)) = listener.accept().await {
                let arrivals = Arc::clone(arrivals);
                tokio::spawn(async move {
                    // A relay that was ended cuts its connections off.
                    drop(converse(stream, &arrivals).await);
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            _ = ended => {}
        }
    });
}

async fn converse(mut stream: TcpStream, arrivals: &Mutex<Vec<Arrival>>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        while let Some((id, length)) = complete(&buffer)? {
            locked(arrivals).push(Arrival { id, at: Instant::now() });
            buffer.drain(..length);
            stream.write_all(ANSWER).await?;
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// The id of the first request in the buffer and its length, once all of it is there.
fn complete(buffer: &[u8]) -> Result<Option<(Uuid, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(buffer)? else { return Ok(None) };
    let value = |name: &str| {
        let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.and_then(|header| str::from_utf8(header.value).ok())
    };
    let body: usize = value("content-length").context("no Content-Length")?.parse()?;
    if buffer.len() < head + body {
        return Ok(None);
    }
    if request.method != Some("POST") {
        bail!("not a POST");
    }
    let id = value("idempotency-key").context("no Idempotency-Key")?.parse()?;
    Ok(Some((id, head + body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_when_all_of_it_is_there() {
        let id = Uuid::from_u128(7);
        let text = format!("POST /in HTTP/1.1\r\nContent-Length: 2\r\nidempotency-key: {id}\r\n\r\n{{}}");
        for end in 0..text.len() {
            assert_eq!(complete(&text.as_bytes()[..end]).unwrap(), None);
        }
        let more = format!("{text}POST");
        assert_eq!(complete(more.as_bytes()).unwrap(), Some((id, text.len())));
    }
}
