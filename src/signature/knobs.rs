//! The knobs of the engine: what differs between the senders that sign alike.
//!
//! A preset has them in its table; for a generic scheme the operator sets them. Whether they fit
//! together is the matter of `knob_check`.

use std::time::Duration;

use super::config::{
    Encoding, Hash, PublicAlgorithm, SecretEncoding, TimestampUnit, VerifyConfig, VerifyConfigError,
};
use super::knob_check::bad;
use super::presets::USUAL_TOLERANCE;

/// How a sender signs, in the words of the configuration.
#[derive(Clone, Copy)]
pub(super) struct Knobs<'a> {
    pub(super) header: &'a str,
    pub(super) prefix: &'a str,
    pub(super) kind: Kind,
    pub(super) encoding: Encoding,
    pub(super) separator: Option<&'a str>,
    pub(super) signature_field: Option<&'a str>,
    pub(super) timestamp: Option<TimestampKnob<'a>>,
    pub(super) timestamp_unit: TimestampUnit,
    /// `None`: any age is accepted.
    pub(super) past: Option<Duration>,
    /// `None`: any future is accepted.
    pub(super) future: Option<Duration>,
    pub(super) id_header: Option<&'a str>,
    pub(super) signed: &'a str,
    pub(super) url: Option<&'a str>,
    pub(super) secret_encoding: SecretEncoding,
    pub(super) secret_prefix: &'a str,
    /// What header names may begin with instead: Svix sends `svix-id`, or `webhook-id`.
    pub(super) other_names: Option<(&'a str, &'a str)>,
    /// The prefix of Ed25519 signatures, where keys of both kinds may stand among the secrets.
    pub(super) ed25519_prefix: Option<&'a str>,
    /// A field that looks like a signature and proves nothing.
    pub(super) decoy_field: Option<&'static str>,
    /// What `{field:NAME}` is when we sign.
    pub(super) sent_fields: &'static [(&'static str, &'static str)],
}

/// What makes a signature out of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hmac(Hash),
    /// A plain hash of a message that holds the secret.
    Hash(Hash),
    Public(PublicAlgorithm),
}

/// Where the timestamp stands.
#[derive(Clone, Copy)]
pub(super) enum TimestampKnob<'a> {
    Header(&'a str),
    /// In the signature's header, beside it.
    Field(&'a str),
    /// In the body, at a pointer.
    Body(&'a str),
}

/// What the generic engine lets one set.
pub(super) const ENGINE_KNOBS: [&str; 13] = [
    "tolerance",
    "tolerance_future",
    "header",
    "prefix",
    "encoding",
    "separator",
    "signature_field",
    "timestamp_field",
    "timestamp_header",
    "timestamp_body",
    "timestamp_unit",
    "id_header",
    "signed",
];

/// The knobs of a generic scheme, as configured.
pub(super) fn written_out(config: &VerifyConfig, kind: Kind) -> Result<Knobs<'_>, VerifyConfigError> {
    let places = [
        config.timestamp_header.as_deref().map(TimestampKnob::Header),
        config.timestamp_field.as_deref().map(TimestampKnob::Field),
        config.timestamp_body.as_deref().map(TimestampKnob::Body),
    ];
    let mut places = places.into_iter().flatten();
    let timestamp = places.next();
    if places.next().is_some() {
        return Err(bad(
            if config.timestamp_body.is_some() { "timestamp_body" } else { "timestamp_field" },
            "stands beside another place; the timestamp is in one place, remove the other",
        ));
    }
    if timestamp.is_none() {
        let dangling = [
            ("tolerance", config.tolerance.is_some()),
            ("tolerance_future", config.tolerance_future.is_some()),
            ("timestamp_unit", config.timestamp_unit.is_some()),
        ];
        if let Some((key, _)) = dangling.into_iter().find(|(_, set)| *set) {
            return Err(bad(
                key,
                "has no meaning without a timestamp; set timestamp_header, timestamp_field or timestamp_body",
            ));
        }
    }
    let past = config.tolerance.unwrap_or(USUAL_TOLERANCE);
    Ok(Knobs {
        header: config.header.as_deref().ok_or(VerifyConfigError::Missing {
            key: "header",
            way_out: "name the header that carries the signature, such as \"x-signature\"",
        })?,
        prefix: config.prefix.as_deref().unwrap_or_default(),
        kind,
        encoding: config.encoding.unwrap_or(Encoding::Hex),
        separator: config.separator.as_deref(),
        signature_field: config.signature_field.as_deref(),
        timestamp,
        timestamp_unit: config.timestamp_unit.unwrap_or(TimestampUnit::Seconds),
        past: Some(past),
        future: Some(config.tolerance_future.unwrap_or(past)),
        id_header: config.id_header.as_deref(),
        signed: config.signed.as_deref().unwrap_or("{body}"),
        url: config.url.as_deref(),
        secret_encoding: config.secret_encoding.unwrap_or(SecretEncoding::Text),
        secret_prefix: config.secret_prefix.as_deref().unwrap_or_default(),
        other_names: None,
        ed25519_prefix: None,
        decoy_field: None,
        sent_fields: &[],
    })
}

/// The knobs that are set, by name.
pub(super) fn set_knobs(config: &VerifyConfig) -> Vec<&'static str> {
    let knobs = [
        ("tolerance", config.tolerance.is_some()),
        ("tolerance_future", config.tolerance_future.is_some()),
        ("url", config.url.is_some()),
        ("handshake_token", config.handshake_token.is_some()),
        ("webhook_id", config.webhook_id.is_some()),
        ("certificate", config.certificate.is_some()),
        ("allow_subjects", !config.allow_subjects.is_empty()),
        ("allow_names", !config.allow_names.is_empty()),
        ("allow_fingerprints", !config.allow_fingerprints.is_empty()),
        ("header", config.header.is_some()),
        ("prefix", config.prefix.is_some()),
        ("hash", config.hash.is_some()),
        ("algorithm", config.algorithm.is_some()),
        ("encoding", config.encoding.is_some()),
        ("separator", config.separator.is_some()),
        ("signature_field", config.signature_field.is_some()),
        ("timestamp_field", config.timestamp_field.is_some()),
        ("timestamp_header", config.timestamp_header.is_some()),
        ("timestamp_body", config.timestamp_body.is_some()),
        ("timestamp_unit", config.timestamp_unit.is_some()),
        ("id_header", config.id_header.is_some()),
        ("signed", config.signed.is_some()),
        ("secret_encoding", config.secret_encoding.is_some()),
        ("secret_prefix", config.secret_prefix.is_some()),
    ];
    knobs.into_iter().filter(|(_, set)| *set).map(|(key, _)| key).collect()
}

pub(super) fn refuse_foreign_knobs(
    config: &VerifyConfig,
    scheme: &'static str,
    knows: impl Fn(&str) -> bool,
) -> Result<(), VerifyConfigError> {
    match set_knobs(config).into_iter().find(|key| !knows(key)) {
        Some(key) => Err(VerifyConfigError::ForeignKnob { key, scheme }),
        None => Ok(()),
    }
}
