//! The senders whose way of signing has a name: a table over the HMAC engine.
//!
//! A preset is nothing that could not be written with `scheme = "hmac"`; it only spares the
//! operator the writing. A sender that signs in a really different way gets a file of its own.

use std::time::Duration;

use super::config::{Encoding, Hash, SecretEncoding, TimestampUnit};
use super::hmac::{Knobs, TimestampKnob};

/// Five minutes, what Standard Webhooks, Slack, Stripe and others take for near enough.
pub(super) const USUAL_TOLERANCE: Duration = Duration::from_mins(5);

/// A named way of signing.
pub(super) struct Preset {
    pub(super) scheme: &'static str,
    pub(super) knobs: Knobs<'static>,
}

/// All of them.
pub(super) static PRESETS: [Preset; 1] = [Preset {
    // https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    scheme: "standard-webhooks",
    knobs: Knobs {
        header: "webhook-signature",
        prefix: "v1,",
        hash: Hash::Sha256,
        encoding: Encoding::Base64,
        separator: Some(" "),
        signature_field: None,
        timestamp: Some(TimestampKnob::Header("webhook-timestamp")),
        timestamp_unit: TimestampUnit::Seconds,
        past: USUAL_TOLERANCE,
        future: Some(USUAL_TOLERANCE),
        id_header: Some("webhook-id"),
        signed: "{id}.{timestamp}.{body}",
        url: None,
        secret_encoding: SecretEncoding::Base64,
        secret_prefix: "whsec_",
    },
}];
