//! The connection under an AMQP client: TCP, with TLS by rustls and ring where the scheme asks for it.
//!
//! The client's own TLS would bring a second set of certificate code into the tree; and without it, it
//! takes `amqps` for `amqp`. So connections are made here, and handed over ready. Certificates are
//! judged as those of HTTPS destinations are.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use async_rs::Tokio;
use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::Task;
use futures_util::Stream;
use futures_util::io::{AsyncRead as FuturesRead, AsyncWrite as FuturesWrite};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

use crate::tls::PeerTls;

/// Bytes both ways, with or without TLS.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection as the AMQP client takes it.
pub(super) type Connected = Compat<Box<dyn Bytes>>;

/// Connects, and shakes hands if TLS is wanted.
pub(super) async fn connect(host: &str, port: u16, tls: Option<&PeerTls>) -> io::Result<Connected> {
    // Brackets belong to URLs.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((host, port)).await?;
    tcp.set_nodelay(true)?;
    let stream: Box<dyn Bytes> = match tls {
        Some(tls) => {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            Box::new(TlsConnector::from(tls.config()).connect(name, tcp).await?)
        }
        None => Box::new(tcp),
    };
    Ok(stream.compat())
}

/// Tokio as the AMQP client sees it, with connections of ours.
#[derive(Clone, Debug)]
pub(super) struct Kit(Tokio);

impl Kit {
    /// On the current runtime.
    pub(super) fn current() -> Self {
        Self(Tokio::current())
    }
}

impl RuntimeKit for Kit {}

impl Executor for Kit {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, f: F) -> T {
        self.0.block_on(f)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(&self, f: F) -> Task<Self::Task<T>> {
        self.0.spawn(f)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        f: F,
    ) -> Task<Self::Task<T>> {
        self.0.spawn_blocking(f)
    }
}

impl Reactor for Kit {
    type TcpStream = Connected;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: io::Read + io::Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl FuturesRead + FuturesWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, dur: Duration) -> Self::Sleep {
        self.0.sleep(dur)
    }

    fn interval(&self, dur: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(dur)
    }

    #[expect(clippy::manual_async_fn, reason = "an `async fn` would borrow `self`")]
    fn tcp_connect_addr(
        &self,
        addr: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        async move {
            let stream: Box<dyn Bytes> = Box::new(TcpStream::connect(addr).await?);
            Ok(stream.compat())
        }
    }
}
