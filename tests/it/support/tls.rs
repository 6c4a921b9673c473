//! A client that speaks TLS: trusts one authority, and may show a certificate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificates::{Authority, Identity};
use super::http::{Answer, Connection, Request};

const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Trusts this authority and has no certificate.
    pub(crate) fn new(authority: &Authority) -> Self {
        Self::with(authority, None, rustls::ALL_VERSIONS)
    }

    /// The same with a certificate to show.
    pub(crate) fn showing(authority: &Authority, identity: &Identity) -> Self {
        Self::with(authority, Some(identity), rustls::ALL_VERSIONS)
    }

    pub(crate) fn with(
        authority: &Authority,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("known versions")
            .with_root_certificates(roots);
        let mut config = match identity.map(Identity::der) {
            Some((certificate, key)) => {
                builder.with_client_auth_cert(vec![certificate], key).expect("a certificate with its key")
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self(Arc::new(config))
    }

    pub(crate) async fn stream(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        timeout(HANDSHAKE_WITHIN, TlsConnector::from(self.0.clone()).connect(name, stream))
            .await
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
    }

    pub(crate) async fn open(
        &self,
        address: SocketAddr,
    ) -> std::io::Result<Connection<TlsStream<TcpStream>>> {
        Ok(Connection::over(self.stream(address).await?))
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn send(&self, address: SocketAddr, request: &Request) -> std::io::Result<Answer> {
        self.open(address).await?.send(request).await
    }
}
