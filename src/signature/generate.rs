//! New secrets, in the form that each scheme writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair};

use super::config::{PublicAlgorithm, SecretEncoding};
use super::knobs::Kind;
use super::presets::{Preset, Way};
use super::public_key::{P256_SPKI, PKCS8_PREFIX, PRIVATE_PREFIX, PUBLIC_PREFIX, PublicKey};
use super::token::TokenPlace;
use crate::secret::Secret;

/// Bytes of a shared secret: as many as the hash gives out, within what Standard Webhooks allows.
const SECRET_BYTES: usize = 32;

/// What was made. Text for a person to copy.
#[derive(Debug)]
pub struct Generated {
    /// For the side that signs; for a shared secret, for both.
    pub secret: Secret,
    /// For the side that verifies, where it is another.
    pub public: Option<String>,
}

/// Why nothing can be made, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    #[error("there is no scheme `{0}`; `hooklatch secret new --help` names some, docs/providers.md all")]
    Unknown(String),
    #[error("scheme `none` has no secrets")]
    None,
    #[error("PayPal makes the keys and signs with certificates; there is no secret to make")]
    Certificates,
    #[error("the system gave no random bytes")]
    NoRandomness,
}

/// Makes a secret for a scheme. `asymmetric` asks for a key pair where a scheme has both (Standard
/// Webhooks v1a).
///
/// # Errors
/// When the scheme is unknown or has no secret of ours.
pub fn generate(scheme: &str, asymmetric: bool) -> Result<Generated, GenerateError> {
    let public = |algorithm| match algorithm {
        PublicAlgorithm::Ed25519 => ed25519(false),
        PublicAlgorithm::EcdsaP256 => p256(),
        PublicAlgorithm::Rsa => Err(GenerateError::Certificates),
    };
    if let Some(preset) = Preset::find(scheme) {
        return match &preset.way {
            Way::Header(knobs) if asymmetric && knobs.ed25519_prefix.is_some() => ed25519(true),
            Way::Header(knobs) => match (knobs.kind, knobs.secret_encoding) {
                (Kind::Public(algorithm), _) => public(algorithm),
                (_, SecretEncoding::Base64) => {
                    shared(|bytes| format!("{}{}", knobs.secret_prefix, STANDARD.encode(bytes)))
                }
                _ => shared(|bytes| hex::encode(bytes)),
            },
            Way::Token(TokenPlace::Basic) => shared(|bytes| format!("hooklatch:{}", hex::encode(bytes))),
            Way::PayPal => Err(GenerateError::Certificates),
            Way::Token(_) | Way::Twilio | Way::Adyen | Way::Mailgun => shared(|bytes| hex::encode(bytes)),
        };
    }
    match scheme {
        "hmac" | "hash" | "bearer" | "token" => shared(|bytes| hex::encode(bytes)),
        "basic" => shared(|bytes| format!("hooklatch:{}", hex::encode(bytes))),
        "public-key" | "ed25519" => public(PublicAlgorithm::Ed25519),
        "ecdsa-p256" => public(PublicAlgorithm::EcdsaP256),
        "none" => Err(GenerateError::None),
        "mtls" => Err(GenerateError::Certificates),
        _ => Err(GenerateError::Unknown(scheme.to_owned())),
    }
}

fn random<const N: usize>() -> Result<[u8; N], GenerateError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| GenerateError::NoRandomness)?;
    Ok(bytes)
}

fn shared(write: impl Fn(&[u8]) -> String) -> Result<Generated, GenerateError> {
    let bytes = random::<SECRET_BYTES>()?;
    Ok(Generated { secret: Secret::new(write(&bytes)), public: None })
}

/// In the form of Standard Webhooks, or PKCS#8 and hex.
fn ed25519(standard: bool) -> Result<Generated, GenerateError> {
    let secret = if standard {
        format!("{PRIVATE_PREFIX}{}", STANDARD.encode(random::<SECRET_BYTES>()?))
    } else {
        let pkcs8 =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| GenerateError::NoRandomness)?;
        format!("{PKCS8_PREFIX}{}", STANDARD.encode(pkcs8))
    };
    let secret = Secret::new(secret);
    let key = PublicKey::parse(&secret, PublicAlgorithm::Ed25519).map_err(|_| GenerateError::NoRandomness)?;
    let public = if standard {
        format!("{PUBLIC_PREFIX}{}", STANDARD.encode(key.public_bytes()))
    } else {
        hex::encode(key.public_bytes())
    };
    Ok(Generated { secret, public: Some(public) })
}

fn p256() -> Result<Generated, GenerateError> {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
        .map_err(|_| GenerateError::NoRandomness)?;
    let secret = Secret::new(format!("{PKCS8_PREFIX}{}", STANDARD.encode(pkcs8)));
    let key =
        PublicKey::parse(&secret, PublicAlgorithm::EcdsaP256).map_err(|_| GenerateError::NoRandomness)?;
    let public = STANDARD.encode([P256_SPKI, key.public_bytes()].concat());
    Ok(Generated { secret, public: Some(public) })
}
