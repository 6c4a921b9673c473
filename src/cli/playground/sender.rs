//! The sender of the story: posts orders over real HTTP and signs them as a shop would.

use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::json;
use uuid::Uuid;

use crate::clock::Clock;
use crate::inbox::outcome::Outcome;
use crate::secret::Secret;
use crate::signature::{Verifier, VerifyConfig};

use super::PlaygroundError;
use super::site::short;

/// The story's signed source, and its unsigned one.
pub(super) const SHOP: &str = "shop";
pub(super) const PLAYGROUND: &str = "playground";

/// An event about an order, with the bytes that every copy of it consists of.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) source: &'static str,
    /// The order's own.
    pub(super) id: Uuid,
    pub(super) event_id: String,
    pub(super) body: String,
}

impl Order {
    /// An order that nobody has seen. `id` tells it apart.
    pub(super) fn new(source: &'static str, event_type: &str, id: Uuid, amount_cents: u32) -> Self {
        let event_id = format!("evt_{}", short(id));
        let body = json!({
            "id": event_id,
            "type": event_type,
            "data": {
                "order_id": id,
                "invoice_id": format!("inv_{}", short(id)),
                "customer_id": "cus_42",
                "amount_cents": amount_cents,
            },
        });
        Self { source, id, event_id, body: body.to_string() }
    }

    /// The same event and key with another amount in the body.
    pub(super) fn with_amount(&self, amount_cents: u32) -> Self {
        let mut body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["data"]["amount_cents"] = amount_cents.into();
        Self { body: body.to_string(), ..self.clone() }
    }
}

/// What the receiver answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) outcome: Option<Outcome>,
    pub(super) content_type: Option<String>,
    /// `Idempotent-Replayed: true`
    pub(super) replayed: bool,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn is(&self, status: u16, outcome: Outcome) -> bool {
        self.status == status && self.outcome == Some(outcome)
    }

    /// Says of the event what `first` said, to the last byte.
    pub(super) fn repeats(&self, first: &Self) -> bool {
        self.status == first.status && self.content_type == first.content_type && self.body == first.body
    }

    /// As the table shows it.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.status, self.outcome.map_or("(no outcome)", Outcome::as_str))
    }
}

/// Posts orders. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    client: reqwest::Client,
    signer: Verifier,
    clock: Clock,
}

impl Sender {
    /// A sender that shares `secret` with the receiver.
    pub(super) fn new(secret: Secret, clock: Clock) -> Result<Self, PlaygroundError> {
        let scheme = VerifyConfig { scheme: "standard-webhooks".into(), ..VerifyConfig::default() };
        let signer = Verifier::new(&scheme, vec![secret]).map_err(PlaygroundError::Signer)?;
        Ok(Self { client: client()?, signer, clock })
    }

    /// Posts the order to a receiver, signed if its source wants that.
    pub(super) async fn post(&self, receiver: SocketAddr, order: &Order) -> Result<Answer, PlaygroundError> {
        let target = format!("/hooks/{}", order.source);
        let mut request = self
            .client
            .post(format!("http://{receiver}{target}"))
            .header("content-type", "application/json")
            .header("idempotency-key", &order.event_id);
        if order.source == SHOP {
            let now = self.clock.now();
            let signature = self
                .signer
                .sign("POST", &target, order.body.as_bytes(), &order.event_id, now)
                .map_err(PlaygroundError::Signature)?;
            for (name, value) in signature {
                request = request.header(name, value);
            }
        }
        let response = request.body(order.body.clone()).send().await.map_err(PlaygroundError::Http)?;
        let header =
            |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (status, outcome) = (response.status().as_u16(), header("hooklatch-outcome"));
        let (content_type, replayed) = (header("content-type"), header("idempotent-replayed"));
        Ok(Answer {
            status,
            outcome: outcome.as_deref().and_then(Outcome::parse),
            content_type,
            replayed: replayed.as_deref() == Some("true"),
            body: response.bytes().await.map_err(PlaygroundError::Http)?,
        })
    }
}

/// An HTTP client that goes to loopback directly, whatever proxy the environment names.
pub(super) fn client() -> Result<reqwest::Client, PlaygroundError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only when another thread has just installed one, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    reqwest::Client::builder().no_proxy().build().map_err(PlaygroundError::Http)
}
