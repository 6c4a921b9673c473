//! The bytes of a request: prepared once, filled in and signed for each delivery.
//!
//! Everything has a fixed width, so a delivery overwrites holes in one buffer and computes one
//! HMAC, as a real sender must. Knows standard-webhooks and the shape of the order event; knows
//! nothing of sockets.

use std::fmt;
use std::ops::Range;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::unix_now;

/// Bytes of `evt_` and 24 hex digits.
const ID_WIDTH: usize = 28;
/// Hex digits of an id.
const ID_DIGITS: usize = 24;
/// Bytes of a UUID's text.
const UUID_WIDTH: usize = 36;
/// Bytes of a Unix time in seconds, until the year 2286.
const UNIX_WIDTH: usize = 10;
/// Bytes of an HMAC-SHA256 in base64.
const SIGNATURE_WIDTH: usize = 44;
/// An amount that the orders table takes, and one its CHECK refuses; of one width.
const GOOD_AMOUNT: &[u8] = b"4990";
const POISON_AMOUNT: &[u8] = b"-499";

/// The identity of an event: 96 random bits, rendered as a provider would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventId(u128);

impl EventId {
    pub(crate) fn random(rng: &mut fastrand::Rng) -> Self {
        Self(rng.u128(..) >> (128 - ID_DIGITS * 4))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "evt_{:0ID_DIGITS$x}", self.0)
    }
}

/// Whether the handler will take the event or refuse it for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Good,
    Poison,
}

/// A request with holes. Every connection has its own copy.
#[derive(Clone, Debug)]
pub(crate) struct RequestTemplate {
    bytes: Vec<u8>,
    body_start: usize,
    header_id: Range<usize>,
    header_time: Range<usize>,
    signature: Range<usize>,
    body_id: Range<usize>,
    order_id: Range<usize>,
    amount: Range<usize>,
    mac: Hmac<Sha256>,
}

impl RequestTemplate {
    /// A template for `POST path`, signed with the bytes of `secret`. `occurred_at` is the
    /// event's own time, RFC 3339; one for all events of a run.
    fn new(host: &str, path: &str, secret: &[u8], occurred_at: &str) -> Self {
        let mut body = Writer::default();
        body.text("{\"id\":\"");
        let body_id = body.hole(ID_WIDTH);
        body.text("\",\"type\":\"order_created\",\"timestamp\":\"");
        body.text(occurred_at);
        body.text("\",\"data\":{\"order_id\":\"");
        let order_id = body.hole(UUID_WIDTH);
        body.text("\",\"customer_id\":\"cus_8f14e45fceea\",\"currency\":\"EUR\",\"amount_cents\":");
        let amount = body.hole(GOOD_AMOUNT.len());
        body.text(",\"items\":[{\"sku\":\"TEA-0042\",\"quantity\":2,\"price_cents\":1995},");
        body.text("{\"sku\":\"POT-0007\",\"quantity\":1,\"price_cents\":1000}]}}");

        let mut head = Writer::default();
        head.text(&format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"));
        head.text(&format!("Content-Length: {}\r\nwebhook-id: ", body.0.len()));
        let header_id = head.hole(ID_WIDTH);
        head.text("\r\nwebhook-timestamp: ");
        let header_time = head.hole(UNIX_WIDTH);
        head.text("\r\nwebhook-signature: v1,");
        let signature = head.hole(SIGNATURE_WIDTH);
        head.text("\r\n\r\n");

        let body_start = head.0.len();
        let moved = |hole: Range<usize>| hole.start + body_start..hole.end + body_start;
        let mut bytes = head.0;
        bytes.extend_from_slice(&body.0);
        Self {
            bytes,
            body_start,
            header_id,
            header_time,
            signature,
            body_id: moved(body_id),
            order_id: moved(order_id),
            amount: moved(amount),
            mac: Hmac::new_from_slice(secret).expect("HMAC takes a key of any length"),
        }
    }

    /// A template for a source whose secret is written as standard-webhooks does, with events that
    /// happen now.
    pub(crate) fn for_source(host: &str, path: &str, secret: &str) -> Result<Self> {
        let encoded = secret.strip_prefix("whsec_").context("the secret does not begin with whsec_")?;
        let now = DateTime::from_timestamp(i64::try_from(unix_now())?, 0).context("the clock is off")?;
        let occurred_at = now.to_rfc3339_opts(SecondsFormat::Secs, true);
        Ok(Self::new(host, path, &STANDARD.decode(encoded)?, &occurred_at))
    }

    /// The whole request for one delivery, signed at `unix_seconds`. The same id always gives the
    /// same body.
    pub(crate) fn fill(&mut self, id: EventId, kind: Kind, unix_seconds: u64) -> &[u8] {
        let digits = hex_digits(id);
        for hole in [self.header_id.clone(), self.body_id.clone()] {
            self.bytes[hole.start..hole.start + 4].copy_from_slice(b"evt_");
            self.bytes[hole.start + 4..hole.end].copy_from_slice(&digits);
        }
        write_uuid(&mut self.bytes[self.order_id.clone()], &digits);
        let amount = match kind {
            Kind::Good => GOOD_AMOUNT,
            Kind::Poison => POISON_AMOUNT,
        };
        self.bytes[self.amount.clone()].copy_from_slice(amount);
        write_decimal(&mut self.bytes[self.header_time.clone()], unix_seconds);
        self.sign();
        &self.bytes
    }

    /// standard-webhooks: HMAC-SHA256 over `id.timestamp.body`.
    fn sign(&mut self) {
        let mut mac = self.mac.clone();
        mac.update(&self.bytes[self.header_id.clone()]);
        mac.update(b".");
        mac.update(&self.bytes[self.header_time.clone()]);
        mac.update(b".");
        mac.update(&self.bytes[self.body_start..]);
        let code = mac.finalize().into_bytes();
        let written = STANDARD.encode_slice(code, &mut self.bytes[self.signature.clone()]);
        debug_assert_eq!(written, Ok(SIGNATURE_WIDTH));
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn hole(&mut self, width: usize) -> Range<usize> {
        let start = self.0.len();
        self.0.resize(start + width, b'0');
        start..start + width
    }
}

fn hex_digits(id: EventId) -> [u8; ID_DIGITS] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = id.0;
    let mut digits = [0; ID_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = HEX[(rest & 0xf) as usize];
        rest >>= 4;
    }
    digits
}

/// A UUID of the id's digits: random where an index looks first.
fn write_uuid(target: &mut [u8], digits: &[u8; ID_DIGITS]) {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let mut source = digits.iter().chain(digits);
    for (at, byte) in target.iter_mut().enumerate() {
        *byte = if DASHES.contains(&at) { b'-' } else { source.next().copied().unwrap_or(b'0') };
    }
}

fn write_decimal(target: &mut [u8], mut value: u64) {
    for byte in target.iter_mut().rev() {
        *byte = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> RequestTemplate {
        RequestTemplate::new("127.0.0.1:1", "/hooks/shop", b"key", "2026-01-01T00:00:00Z")
    }

    #[test]
    fn a_filled_request_is_well_formed_and_carries_its_id_twice() {
        let mut template = template();
        let id = EventId(0xabc);
        let text = String::from_utf8(template.fill(id, Kind::Good, 1_700_000_000).to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert!(head.contains(&format!("webhook-id: {id}\r\n")));
        assert!(head.contains("webhook-timestamp: 1700000000\r\n"));
        let event: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(event["id"], id.to_string());
        assert_eq!(event["data"]["amount_cents"], 4990);
        assert!(event["data"]["order_id"].as_str().unwrap().parse::<uuid::Uuid>().is_ok());
    }

    #[test]
    fn a_poison_event_differs_only_in_its_amount() {
        let mut template = template();
        let text = template.fill(EventId(1), Kind::Poison, 1_700_000_000).to_vec();
        let start = text.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let event: serde_json::Value = serde_json::from_slice(&text[start..]).unwrap();
        assert_eq!(event["data"]["amount_cents"], -499);
    }
}
