//! The senders whose way of signing has a name: tables, one file per kind of sender.
//!
//! A preset says everything a source needs to know of its sender: how it signs, where the parts of
//! its events live, how long it retries, which answers it understands, and how it asks whether an
//! address is ours. `docs/providers.md` shows the same to people; a test keeps the two together.

mod business;
mod communication;
mod developer;
mod generic;
mod payment;

use std::time::Duration;

use super::config::{Encoding, Hash, PublicAlgorithm, SecretEncoding, TimestampUnit};
use super::handshake::HandshakeKind;
use super::knobs::{Kind, Knobs, TimestampKnob};
use super::token::TokenPlace;
use crate::envelope::EnvelopePreset;

/// Five minutes, what Standard Webhooks, Slack, Stripe and others take for near enough.
pub(super) const USUAL_TOLERANCE: Duration = Duration::from_mins(5);

/// A named sender.
pub struct Preset {
    pub scheme: &'static str,
    /// Whom a person would call it.
    pub sender: &'static str,
    pub(super) way: Way,
    /// Where the parts of its events live.
    pub envelope: EnvelopePreset,
    /// How long it retries, where that is known.
    pub retry_horizon: Option<Duration>,
    /// Which answers it understands.
    pub contract: Contract,
    /// How it asks whether an address is ours.
    pub handshake: HandshakeKind,
}

/// How a named sender signs.
#[expect(clippy::large_enum_variant, reason = "it stands in static tables only")]
pub(super) enum Way {
    Header(Knobs<'static>),
    Token(TokenPlace<'static>),
    Twilio,
    Adyen,
    Mailgun,
    PayPal,
}

/// Which answers a sender understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The statuses it takes for success; empty: every 2xx.
    pub success: &'static [u16],
    /// The status for a delivery that is not verified.
    pub refusal: u16,
    /// The status for an event that is refused for good, so that it is not sent again.
    pub rejection: u16,
    /// A header that stops retries of an event that is refused for good.
    pub stop_retrying: Option<(&'static str, &'static str)>,
    /// It wants answers without a body.
    pub bodiless: bool,
    /// When it may come again with what could not be taken. A sender that counts its attempts and
    /// follows `Retry-After` must not spend them all on one short outage.
    pub retry_after_seconds: u32,
}

impl Contract {
    /// Every 2xx is success, 401 is not verified, 422 is refused for good.
    pub const USUAL: Self = Self {
        success: &[],
        refusal: 401,
        rejection: 422,
        stop_retrying: None,
        bodiless: false,
        retry_after_seconds: 1,
    };

    /// The sender does as `Retry-After` says, and gives up after some attempts.
    const COUNTS_ATTEMPTS: Self = Self { retry_after_seconds: 30, ..Self::USUAL };

    /// Whether the sender takes `status` for success.
    #[must_use]
    pub fn is_success(&self, status: u16) -> bool {
        if self.success.is_empty() { (200..300).contains(&status) } else { self.success.contains(&status) }
    }
}

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn find(scheme: &str) -> Option<&'static Self> {
        Self::all().find(|preset| preset.scheme == scheme)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        let tables: [&[Self]; 5] = [
            &generic::PRESETS,
            &payment::PRESETS,
            &communication::PRESETS,
            &developer::PRESETS,
            &business::PRESETS,
        ];
        tables.into_iter().flatten()
    }

    /// How far its timestamps may lie from our clock, for schemes that sign one.
    #[must_use]
    pub fn tolerance(&self) -> Option<Duration> {
        match &self.way {
            Way::Header(Knobs { timestamp: Some(_), past, .. }) => *past,
            _ => None,
        }
    }

    /// Whether the public address must be configured, since the sender signs it.
    #[must_use]
    pub fn needs_url(&self) -> bool {
        match &self.way {
            Way::Header(knobs) => knobs.signed.contains("{url}"),
            Way::Twilio => true,
            _ => false,
        }
    }

    /// Whether a delivery can be told from an old one by a time or an id that is signed.
    #[must_use]
    pub fn signs_time(&self) -> bool {
        match &self.way {
            Way::Header(knobs) => knobs.timestamp.is_some(),
            Way::PayPal | Way::Mailgun => true,
            Way::Token(_) | Way::Twilio | Way::Adyen => false,
        }
    }

    /// How it signs, in a few words.
    #[must_use]
    pub fn way_in_words(&self) -> String {
        match &self.way {
            Way::Header(knobs) => {
                let kind = match knobs.kind {
                    Kind::Hmac(Hash::Sha1) => "HMAC-SHA1",
                    Kind::Hmac(Hash::Sha256) => "HMAC-SHA256",
                    Kind::Hmac(Hash::Sha512) => "HMAC-SHA512",
                    Kind::Hash(_) => "SHA-256",
                    Kind::Public(PublicAlgorithm::Ed25519) => "Ed25519",
                    Kind::Public(PublicAlgorithm::EcdsaP256) => "ECDSA P-256",
                    Kind::Public(PublicAlgorithm::Rsa) => "RSA",
                };
                format!("{kind} of `{}` in `{}`", knobs.signed, knobs.header)
            }
            Way::Token(TokenPlace::Header { name, .. }) => format!("token in `{name}`"),
            Way::Token(TokenPlace::Bearer) => "bearer token".to_owned(),
            Way::Token(TokenPlace::BearerOrQuery(name)) => format!("bearer token, or `?{name}=`"),
            Way::Token(TokenPlace::Basic) => "basic authentication".to_owned(),
            Way::Twilio => "HMAC-SHA1 of URL and parameters in `x-twilio-signature`".to_owned(),
            Way::Adyen => "HMAC-SHA256 inside each item".to_owned(),
            Way::Mailgun => "HMAC-SHA256 of timestamp and token inside the body".to_owned(),
            Way::PayPal => "RSA certificate, in `paypal-transmission-sig`".to_owned(),
        }
    }
}

impl std::fmt::Debug for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Preset({})", self.scheme)
    }
}

const fn hours(hours: u64) -> Option<Duration> {
    Some(Duration::from_hours(hours))
}

const fn days(days: u64) -> Option<Duration> {
    hours(days * 24)
}

/// HMAC-SHA256 of the body, in hex, alone in a header.
const BODY: Knobs<'static> = Knobs {
    header: "",
    prefix: "",
    kind: Kind::Hmac(Hash::Sha256),
    encoding: Encoding::Hex,
    separator: None,
    signature_field: None,
    timestamp: None,
    timestamp_unit: TimestampUnit::Seconds,
    past: Some(USUAL_TOLERANCE),
    future: Some(USUAL_TOLERANCE),
    id_header: None,
    signed: "{body}",
    url: None,
    secret_encoding: SecretEncoding::Text,
    secret_prefix: "",
    other_names: None,
    ed25519_prefix: None,
    decoy_field: None,
    sent_fields: &[],
};

/// A sender of the usual kind, but for what each says of itself.
const SENDER: Preset = Preset {
    scheme: "",
    sender: "",
    way: Way::Header(BODY),
    envelope: EnvelopePreset::USUAL,
    retry_horizon: None,
    contract: Contract::USUAL,
    handshake: HandshakeKind::None,
};

/// Standard Webhooks 1.0.0; `whpk_` keys verify its v1a.
const STANDARD_WEBHOOKS: Knobs<'static> = Knobs {
    header: "webhook-signature",
    prefix: "v1,",
    encoding: Encoding::Base64,
    separator: Some(" "),
    timestamp: Some(TimestampKnob::Header("webhook-timestamp")),
    id_header: Some("webhook-id"),
    signed: "{id}.{timestamp}.{body}",
    secret_encoding: SecretEncoding::Base64,
    secret_prefix: "whsec_",
    ed25519_prefix: Some("v1a,"),
    ..BODY
};
