//! What message brokers have in common, as destinations and as sources: their URLs, and how to get a
//! connection to one. Each broker is a cargo feature.
//!
//! Guarantees: no URL, no password and no body reaches a log or a `Debug`. Knows neither messages of
//! the outbox nor deliveries.

#[cfg(feature = "amqp")]
pub mod amqp;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "amqp")]
mod stream;
mod url;

pub use url::{BrokerKind, BrokerUrl};

use std::time::Duration;

use crate::tls::PeerTls;

/// A broker as it is configured.
#[derive(Clone, Debug)]
pub struct BrokerSpec {
    pub url: BrokerUrl,
    /// How long connecting may take, up to the moment at which messages can be exchanged.
    pub connect_timeout: Duration,
    /// Whose certificates are believed, and which is shown. `None`: as the machine's settings say.
    pub tls: Option<PeerTls>,
}

impl BrokerSpec {
    /// For a connection by TLS.
    ///
    /// # Errors
    /// Why it cannot be set up.
    #[cfg(any(feature = "amqp", feature = "nats"))]
    fn peer_tls(&self) -> Result<PeerTls, String> {
        match &self.tls {
            Some(tls) => Ok(tls.clone()),
            None => PeerTls::of_the_machine().map_err(|error| format!("{error}: {}", root_cause(&error))),
        }
    }
}

/// An error with its causes, in one line.
#[cfg(any(feature = "amqp", feature = "nats", feature = "kafka"))]
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    deepest.to_string()
}

/// `%2f` is a slash; `+` is a plus sign, unlike in forms.
#[cfg(any(feature = "amqp", feature = "nats"))]
fn percent_decode(text: &str) -> Vec<u8> {
    crate::envelope::form_decode(text.replace('+', "%2B").as_bytes())
}
