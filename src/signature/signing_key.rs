//! The keys of the engine: each makes and recognises one kind of signature over a message in parts.

use chrono::{DateTime, Utc};

use super::config::{Encoding, PublicAlgorithm, SecretEncoding, VerifyConfigError};
use super::key::{self, Dated};
use super::knob_check::{self, bad};
use super::knobs::{Kind, Knobs};
use super::mac::{Mac, Tag};
use super::public_key::{self, PublicKey};
use super::refusal::SignError;

/// One of the secrets, worked in.
#[derive(Clone)]
pub(super) struct Key {
    /// What stands before the signatures it makes.
    pub(super) prefix: String,
    kind: KeyKind,
    pub(super) not_after: Option<DateTime<Utc>>,
}

#[derive(Clone)]
enum KeyKind {
    /// `secret` is empty unless the message holds it.
    Mac {
        mac: Box<Mac>,
        secret: Vec<u8>,
    },
    Public(PublicAlgorithm, PublicKey),
}

/// A signature as it was sent.
pub(super) enum Signature {
    Tag(Tag),
    Public(Vec<u8>),
}

impl Key {
    /// HMAC of `text` in hex, where the key is a shared secret.
    pub(super) fn keyed_hash(&self, text: &[u8]) -> Option<String> {
        match &self.kind {
            KeyKind::Mac { mac, .. } => Some(mac.over([text]).encode(Encoding::Hex)),
            KeyKind::Public(..) => None,
        }
    }

    pub(super) fn secret(&self) -> &[u8] {
        match &self.kind {
            KeyKind::Mac { secret, .. } => secret,
            KeyKind::Public(..) => &[],
        }
    }

    pub(super) fn decode(&self, text: &str, encoding: Encoding) -> Result<Signature, &'static str> {
        match &self.kind {
            KeyKind::Mac { mac, .. } => {
                Tag::decode(text.as_bytes(), encoding, mac.hash()).map(Signature::Tag)
            }
            KeyKind::Public(algorithm, _) => {
                public_key::decode_signature(text, encoding, *algorithm).map(Signature::Public)
            }
        }
    }

    /// Whether one of the signatures is this key's over the message.
    pub(super) fn matches(&self, parts: &[&[u8]], mut signatures: impl Iterator<Item = Signature>) -> bool {
        match &self.kind {
            KeyKind::Mac { mac, .. } => {
                let tag = mac.over(parts.iter().copied());
                signatures.any(|sent| matches!(sent, Signature::Tag(sent) if tag.matches(&sent)))
            }
            KeyKind::Public(_, key) => {
                let message = parts.concat();
                signatures
                    .any(|sent| matches!(sent, Signature::Public(sent) if key.verifies(&message, &sent)))
            }
        }
    }

    pub(super) fn sign(&self, parts: &[&[u8]], encoding: Encoding) -> Result<String, SignError> {
        match &self.kind {
            KeyKind::Mac { mac, .. } => Ok(mac.over(parts.iter().copied()).encode(encoding)),
            KeyKind::Public(_, key) => {
                let signature = key.sign(&parts.concat()).ok_or(SignError::PublicKeyOnly)?;
                Ok(public_key::encode_signature(&signature, encoding))
            }
        }
    }
}

/// A key of each secret.
pub(super) fn keys(
    scheme: &'static str,
    knobs: &Knobs<'_>,
    secrets: &[Dated],
) -> Result<Vec<Key>, VerifyConfigError> {
    let prefix = knob_check::printable("prefix", knobs.prefix)?;
    if matches!(knobs.kind, Kind::Public(_)) && knobs.secret_encoding != SecretEncoding::Text {
        return Err(bad("secret_encoding", "has no meaning for a public key; its form is recognised"));
    }
    key::each(scheme, secrets, |dated| {
        let not_after = dated.not_after;
        let is_public = |text: &str| {
            text.starts_with(public_key::PUBLIC_PREFIX) || text.starts_with(public_key::PRIVATE_PREFIX)
        };
        if let Some(prefix) = knobs.ed25519_prefix
            && is_public(dated.secret.expose())
        {
            let key = PublicKey::parse(&dated.secret, PublicAlgorithm::Ed25519)?;
            let kind = KeyKind::Public(PublicAlgorithm::Ed25519, key);
            return Ok(Key { prefix: prefix.to_owned(), kind, not_after });
        }
        let kind = match knobs.kind {
            Kind::Public(algorithm) => {
                KeyKind::Public(algorithm, PublicKey::parse(&dated.secret, algorithm)?)
            }
            Kind::Hmac(hash) => {
                let key = key::decode(&dated.secret, knobs.secret_encoding, knobs.secret_prefix)?;
                KeyKind::Mac { mac: Box::new(Mac::keyed(hash, &key)), secret: Vec::new() }
            }
            Kind::Hash(hash) => {
                let secret = key::decode(&dated.secret, knobs.secret_encoding, knobs.secret_prefix)?;
                KeyKind::Mac { mac: Box::new(Mac::plain(hash)), secret }
            }
        };
        Ok(Key { prefix: prefix.clone(), kind, not_after })
    })
}
