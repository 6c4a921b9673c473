//! A connection to RabbitMQ, and its errors in words.
//!
//! One connection is one attempt: nothing here connects again by itself. Whoever uses it decides when,
//! by the rules of a destination or of a source.

use std::time::Duration;

use async_rs::Runtime;
use lapin::protocol::AMQPErrorKind;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, Error, ErrorKind};

use super::stream::{self, Kit};
use super::{BrokerSpec, BrokerUrl, percent_decode, root_cause};
use crate::tls::certificate_problem;

/// How often both sides show that they live: a peer that vanished without a word is noticed after two.
const HEARTBEAT_SECONDS: u16 = 10;
/// The user that RabbitMQ has from the start, and takes from loopback only.
const DEFAULT_USER: &str = "guest";
/// The virtual host that RabbitMQ has from the start.
const DEFAULT_VHOST: &str = "/";
const PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;
/// Ends a connection in order.
const REPLY_SUCCESS: u16 = 200;
/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Connects. `purpose` is how the connection is called in RabbitMQ's own lists.
///
/// # Errors
/// Why it cannot, without any secret of the URL.
pub async fn connect(spec: &BrokerSpec, purpose: &str) -> Result<Connection, String> {
    let uri = uri(&spec.url)?;
    let tls = match uri.scheme {
        AMQPScheme::AMQPS => Some(spec.peer_tls()?),
        AMQPScheme::AMQP => None,
    };
    let properties = ConnectionProperties::default().with_connection_name(purpose.into());
    let connecting = Connection::connector(
        uri,
        Runtime::new(Kit::current()),
        async move |uri: AMQPUri, _: Runtime<Kit>| {
            let AMQPAuthority { host, port, .. } = &uri.authority;
            let connected = stream::connect(host, *port, tls.as_ref()).await?;
            Ok(AsyncTcpStream::Plain(connected))
        },
        properties,
    );
    match tokio::time::timeout(spec.connect_timeout, connecting).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(format!("cannot connect to {}: {}", spec.url.place(), explain(&error))),
        Err(_) => Err(format!(
            "could not connect to {} within {} s",
            spec.url.place(),
            spec.connect_timeout.as_secs_f32()
        )),
    }
}

/// Ends a connection in order, if it still can be.
pub async fn close(connection: &Connection) {
    let goodbye = connection.close(REPLY_SUCCESS, "OK".into());
    // Whether it was heard makes no difference any more.
    let _heard = tokio::time::timeout(GOODBYE, goodbye).await;
}

/// An error in words: what RabbitMQ said, or what became of the connection.
#[must_use]
pub fn explain(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(said) => format!("{} {}", said.get_id(), said.get_message()),
        ErrorKind::IOError(cause) => certificate_problem(&**cause).unwrap_or_else(|| root_cause(error)),
        ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidConnectionState(_) => {
            "the connection was closed".to_owned()
        }
        ErrorKind::MissingHeartbeatError => "nothing was heard of it for too long".to_owned(),
        _ => error.to_string(),
    }
}

/// RabbitMQ's reply code, where it is one about what was asked for (an exchange that is not there) and
/// not about the connection.
#[must_use]
pub fn refusal_code(error: &Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(said) if matches!(said.kind(), AMQPErrorKind::Soft(_)) => {
            Some(said.get_id())
        }
        _ => None,
    }
}

fn uri(url: &BrokerUrl) -> Result<AMQPUri, String> {
    let url = url.expose();
    let is_tls = url.scheme() == "amqps";
    let decoded = |text: &str| {
        let text = percent_decode(text);
        String::from_utf8(text).map_err(|_| "the URL has an escape that is not UTF-8".to_owned())
    };
    let username = match url.username() {
        "" => DEFAULT_USER.to_owned(),
        username => decoded(username)?,
    };
    let vhost = match url.path() {
        "" | "/" => DEFAULT_VHOST.to_owned(),
        path => decoded(path.trim_start_matches('/'))?,
    };
    Ok(AMQPUri {
        scheme: if is_tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username, password: decoded(url.password().unwrap_or(DEFAULT_USER))? },
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port().unwrap_or(if is_tls { TLS_PORT } else { PORT }),
        },
        vhost,
        query: AMQPQueryString { heartbeat: Some(HEARTBEAT_SECONDS), ..AMQPQueryString::default() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whom_where_and_which_virtual_host() {
        let read = |text| uri(&BrokerUrl::parse(text).expect(text)).expect(text);
        let plain = read("amqp://localhost");
        assert_eq!((plain.authority.port, plain.vhost.as_str()), (5672, "/"));
        assert_eq!(plain.authority.userinfo.username, "guest");
        assert_eq!(read("amqp://localhost/").vhost, "/");
        let full = read("amqps://sh%40p:a+b%2Fc@[::1]:7000/orders%2Feu");
        assert_eq!(full.scheme, AMQPScheme::AMQPS);
        assert_eq!((full.authority.host.as_str(), full.authority.port), ("[::1]", 7000));
        assert_eq!(full.authority.userinfo.username, "sh@p");
        assert_eq!(full.authority.userinfo.password, "a+b/c");
        assert_eq!(full.vhost, "orders/eu");
    }
}
