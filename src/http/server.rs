//! The two servers: sockets, TLS, workers, connection limits and timeouts.
//!
//! Neither listens to signals: the program's lifecycle stops them, in its own order.

use std::any::Any;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::{Extensions, Server};
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer, web};
use tokio::net::TcpSocket;

use crate::http::arrival::Peer;
use crate::http::state::ServerState;
use crate::http::{admin, admin_routes, public_routes};
use crate::tls::{ClientCertificate, TlsListener};

/// Connections that may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// TLS handshakes at a time, of one worker: behind so many, connections wait to be accepted. A
/// handshake that goes nowhere holds its place for the handshake's timeout.
const HANDSHAKES_PER_WORKER: usize = 1024;

/// Operators are few.
const ADMIN_WORKERS: usize = 1;
const ADMIN_MAX_CONNECTIONS: usize = 256;

/// How the servers treat their connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Threads of the public server; 0: as many as there are cores.
    pub workers: usize,
    /// Most connections at a time, over all workers of the public server.
    pub max_connections: usize,
    /// How long an idle connection stays open.
    pub keep_alive: Duration,
    /// How long the head of a request may take to arrive.
    pub head_timeout: Duration,
    /// How long a connection that is being closed may take to notice.
    pub disconnect_timeout: Duration,
    /// How long running requests get when the server stops.
    pub shutdown_timeout: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            workers: 0,
            max_connections: 16_384,
            keep_alive: Duration::from_secs(75),
            head_timeout: Duration::from_secs(10),
            disconnect_timeout: Duration::from_secs(2),
            shutdown_timeout: Duration::from_secs(25),
        }
    }
}

impl ServerSettings {
    fn worker_count(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }
}

/// Where a server listens, and whether it ends TLS there.
#[derive(Debug)]
pub struct Socket {
    pub listener: TcpListener,
    /// Plain HTTP without.
    pub tls: Option<Tls>,
}

/// TLS on a socket.
#[derive(Clone, Debug)]
pub struct Tls {
    pub listener: Arc<TlsListener>,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
}

impl From<TcpListener> for Socket {
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None }
    }
}

/// Listens on `address`, with room for many connections that come at once.
///
/// # Errors
/// When the address cannot be listened on, because it is taken, for example.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// The server that takes deliveries. Runs when awaited.
///
/// # Errors
/// When the socket cannot be used.
pub fn public_server(
    state: Arc<ServerState>,
    socket: impl Into<Socket>,
    settings: &ServerSettings,
) -> io::Result<Server> {
    let Socket { listener, tls } = socket.into();
    let workers = settings.worker_count();
    let data = web::Data::from(state);
    let server = HttpServer::new(move || App::new().app_data(data.clone()).configure(public_routes))
        .workers(workers)
        .max_connections(settings.max_connections.div_ceil(workers))
        .max_connection_rate(HANDSHAKES_PER_WORKER)
        .keep_alive(settings.keep_alive)
        .client_request_timeout(settings.head_timeout)
        .client_disconnect_timeout(settings.disconnect_timeout)
        .shutdown_timeout(settings.shutdown_timeout.as_secs())
        .tcp_nodelay(true)
        .on_connect(know_client)
        .disable_signals();
    let server = match tls {
        None => server.listen(listener)?,
        Some(tls) => server
            .tls_handshake_timeout(tls.handshake_timeout)
            .listen_rustls_0_23(listener, tls.listener.server_config().map_err(io::Error::other)?)?,
    };
    Ok(server.run())
}

/// The server for operators. Runs when awaited.
///
/// # Errors
/// When the socket cannot be used.
pub fn admin_server(
    state: Arc<ServerState>,
    socket: impl Into<Socket>,
    settings: &ServerSettings,
) -> io::Result<Server> {
    let Socket { listener, tls } = socket.into();
    let data = web::Data::from(state);
    let server = HttpServer::new(move || {
        App::new()
            .app_data(data.clone())
            .app_data(admin::query_config())
            .app_data(admin::path_config())
            .configure(admin_routes)
    })
    .workers(ADMIN_WORKERS)
    .max_connections(ADMIN_MAX_CONNECTIONS)
    .keep_alive(settings.keep_alive)
    .client_request_timeout(settings.head_timeout)
    .client_disconnect_timeout(settings.disconnect_timeout)
    .shutdown_timeout(settings.shutdown_timeout.as_secs())
    .disable_signals();
    let server = match tls {
        None => server.listen(listener)?,
        Some(tls) => server
            .tls_handshake_timeout(tls.handshake_timeout)
            .listen_rustls_0_23(listener, tls.listener.server_config().map_err(io::Error::other)?)?,
    };
    Ok(server.run())
}

/// What is known of the client is there for every request of the connection.
fn know_client(connection: &dyn Any, extensions: &mut Extensions) {
    let stream = if let Some(stream) = connection.downcast_ref::<TlsStream<TcpStream>>() {
        let (stream, handshake) = stream.get_ref();
        let shown = handshake.peer_certificates().and_then(<[_]>::first);
        if let Some(certificate) = shown {
            extensions.insert(Arc::new(ClientCertificate::read(certificate)));
        }
        Some(stream)
    } else {
        connection.downcast_ref::<TcpStream>()
    };
    if let Some(Ok(address)) = stream.map(TcpStream::peer_addr) {
        extensions.insert(Peer::at(address.ip()));
    }
}
