//! Whether an HTTP destination can be reached: its name, a connection, TLS; step by step, and never a
//! request. For `check`, which must not deliver anything.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Url;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::tls::{PeerTls, certificate_problem};

/// Goes as far as an attempt would before it sends something; says how far that is.
pub(super) async fn reach(url: &Url, tls: Option<&PeerTls>, patience: Duration) -> Result<String, String> {
    let host = url.host_str().ok_or("its URL has no host")?.trim_matches(['[', ']']);
    let port = url.port_or_known_default().ok_or("its URL has no port")?;
    let addresses = resolve(host, port, patience).await?;
    let (stream, address) = connect(&addresses, patience).await?;
    if url.scheme() != "https" {
        return Ok(format!("{address} takes connections; without TLS, anybody between can read messages"));
    }
    greet(stream, host, tls, patience).await?;
    Ok(format!("{address} takes connections and has a certificate for {host}"))
}

async fn resolve(host: &str, port: u16, patience: Duration) -> Result<Vec<SocketAddr>, String> {
    let way_out = "check the host name in its URL, and this machine's DNS";
    match timeout(patience, lookup_host((host, port))).await {
        Ok(Ok(found)) => {
            let addresses: Vec<_> = found.collect();
            match addresses.is_empty() {
                true => Err(format!("the name {host} has no address; {way_out}")),
                false => Ok(addresses),
            }
        }
        Ok(Err(error)) => Err(format!("the name {host} cannot be resolved: {error}; {way_out}")),
        Err(_) => Err(format!("the name {host} was not resolved {}; {way_out}", within(patience))),
    }
}

async fn connect(addresses: &[SocketAddr], patience: Duration) -> Result<(TcpStream, SocketAddr), String> {
    let mut failures = Vec::new();
    for address in addresses {
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, *address)),
            Ok(Err(error)) => failures.push(format!("{address}: {error}")),
            Err(_) => failures.push(format!("{address}: no answer {}", within(patience))),
        }
    }
    let failures = failures.join("; ");
    Err(format!(
        "cannot connect to {failures}; is it running, is the port right, does a firewall stand between?"
    ))
}

async fn greet(
    stream: TcpStream,
    host: &str,
    tls: Option<&PeerTls>,
    patience: Duration,
) -> Result<(), String> {
    let machine = || PeerTls::of_the_machine().map_err(|error| format!("{error}; see to its certificates"));
    let tls = tls.map_or_else(machine, |tls| Ok(tls.clone()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no name for TLS"))?;
    match timeout(patience, TlsConnector::from(tls.config()).connect(name, stream)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => match certificate_problem(&error) {
            Some(problem) => Err(format!("TLS with {host} fails: {problem}")),
            None => Err(format!("TLS with {host} fails: {error}; is that a port for TLS?")),
        },
        Err(_) => {
            Err(format!("TLS with {host} did not come about {}; is that a port for TLS?", within(patience)))
        }
    }
}

fn within(patience: Duration) -> impl fmt::Display {
    format!("within {} s", patience.as_secs_f32())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    async fn told(url: &str) -> Result<String, String> {
        reach(&url.parse().expect("a URL"), None, PATIENCE).await
    }

    #[tokio::test]
    async fn what_cannot_be_reached_is_said_with_the_step_that_failed() {
        let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = nobody.local_addr().expect("it listens");
        drop(nobody);
        for (url, expected) in [
            ("https://no-such-host.invalid/in".to_owned(), "the name no-such-host.invalid"),
            (format!("http://{address}/in"), "cannot connect to 127.0.0.1"),
        ] {
            let error = told(&url).await.expect_err("it cannot be reached");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn a_port_that_speaks_no_tls_is_told_apart_and_gets_no_request() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let plain = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = plain.local_addr().expect("it listens");
        let heard = tokio::spawn(async move {
            let (mut first, _) = plain.accept().await.expect("somebody connects");
            let mut silent = Vec::new();
            first.read_to_end(&mut silent).await.expect("it ends");
            let (mut second, _) = plain.accept().await.expect("somebody connects");
            second.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("it listens");
            silent
        });
        let reached = told(&format!("http://{address}/in")).await.expect("it takes connections");
        assert!(reached.contains("takes connections"), "{reached}");
        let error = told(&format!("https://{address}/in")).await.expect_err("no TLS there");
        assert!(error.contains("TLS with 127.0.0.1 fails"), "{error}");
        assert!(heard.await.expect("no panic").is_empty(), "nothing was sent");
    }
}
