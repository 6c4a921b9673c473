//! A connection to NATS, and its errors in words.
//!
//! The client connects again by itself once it was connected; until then, whoever uses it tries again.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};

use super::{BrokerSpec, BrokerUrl, percent_decode, root_cause};
use crate::tls::certificate_problem;

/// The longest pause before the client connects again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The first pause, doubled from there.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// After so many doublings the pause is longer than the longest.
const DOUBLINGS: usize = 8;

/// Connects. `purpose` is how the connection is called in the server's own lists.
///
/// # Errors
/// Why it cannot, without any secret of the URL.
pub async fn connect(spec: &BrokerSpec, purpose: &str) -> Result<Client, String> {
    let (server, mut options) = options(&spec.url)?;
    if spec.tls.is_some() {
        options = options.tls_client_config((*spec.peer_tls()?.config()).clone());
    }
    let options = options
        .name(purpose)
        .connection_timeout(spec.connect_timeout)
        .reconnect_delay_callback(|attempts| {
            let doublings = u32::try_from(attempts.min(DOUBLINGS)).unwrap_or_default();
            FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE)
        })
        .event_callback(|event| async move { tracing::debug!(%event, "NATS") });
    // Fails only when there is one already, which serves as well.
    let _present = rustls::crypto::ring::default_provider().install_default();
    match tokio::time::timeout(spec.connect_timeout, options.connect(server)).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => {
            let reason = certificate_problem(&error).unwrap_or_else(|| root_cause(&error));
            Err(format!("cannot connect to {}: {reason}", spec.url.place()))
        }
        Err(_) => Err(format!(
            "could not connect to {} within {} s",
            spec.url.place(),
            spec.connect_timeout.as_secs_f32()
        )),
    }
}

/// `JetStream` over a connection.
#[must_use]
pub fn jetstream(client: Client, timeout: Duration) -> Context {
    let mut context = jetstream::new(client);
    context.set_timeout(timeout);
    context
}

/// Whether what is sent now arrives now.
#[must_use]
pub fn is_connected(client: &Client) -> bool {
    client.connection_state() == State::Connected
}

/// The server without the secrets, and what they become.
fn options(url: &BrokerUrl) -> Result<(String, ConnectOptions), String> {
    let exposed = url.expose();
    let decoded = |text: &str| {
        String::from_utf8(percent_decode(text))
            .map_err(|_| "the URL has an escape that is not UTF-8".to_owned())
    };
    let options = match (exposed.username(), exposed.password()) {
        ("", None) => ConnectOptions::new(),
        (token, None) => ConnectOptions::new().token(decoded(token)?),
        (user, Some(password)) => ConnectOptions::new().user_and_password(decoded(user)?, decoded(password)?),
    };
    Ok((url.place(), options.require_tls(exposed.scheme() == "tls")))
}
