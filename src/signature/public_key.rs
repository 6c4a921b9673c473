//! Signatures made with a private key and verified with its public half: Ed25519, ECDSA, RSA.
//!
//! A key is read in every form that senders hand out: hex, base64 (bare or SPKI), PEM, and the
//! `whpk_`/`whsk_` of Standard Webhooks. A private key signs and verifies; a public one verifies.
//! The primitives are ring's.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};

use super::config::{Encoding, PublicAlgorithm};
use crate::secret::Secret;

/// Standard Webhooks writes private and public keys with these.
pub(super) const PRIVATE_PREFIX: &str = "whsk_";
pub(super) const PUBLIC_PREFIX: &str = "whpk_";

/// PKCS#8 in base64 on one line, which fits into an environment variable.
pub(super) const PKCS8_PREFIX: &str = "pkcs8:";

/// What stands before the key bytes in a SubjectPublicKeyInfo of Ed25519 (RFC 8410).
const ED25519_SPKI: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The same for an uncompressed point of P-256 (RFC 5480).
pub(super) const P256_SPKI: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The algorithm of an RSA key in a SubjectPublicKeyInfo (RFC 3279).
const RSA_ALGORITHM: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

const ED25519_KEY_BYTES: usize = 32;
const ED25519_SIGNATURE_BYTES: usize = 64;
const P256_POINT_BYTES: usize = 65;

/// Longest signature in DER of P-256, and the longest RSA signature accepted (8192 bits).
const MAX_ECDSA_SIGNATURE_BYTES: usize = 72;
const MAX_RSA_SIGNATURE_BYTES: usize = 1024;

const NO_PUBLIC_KEY: &str = "is no public key of this algorithm; copy it again from the sender";
const NO_PRIVATE_KEY: &str =
    "is no private key of this algorithm; write PKCS#8, as PEM or `pkcs8:` and base64";

/// A key that verifies, and signs if its private half is known.
#[derive(Clone)]
pub(super) struct PublicKey {
    algorithm: PublicAlgorithm,
    /// As ring takes it: 32 bytes, a point, an `RSAPublicKey`.
    bytes: Vec<u8>,
    private: Option<Arc<PrivateKey>>,
}

enum PrivateKey {
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// Whether a key is written in one of the forms of private ones.
pub(super) fn is_private(text: &str) -> bool {
    text.starts_with(PRIVATE_PREFIX) || pkcs8(text).is_some()
}

impl PublicKey {
    /// Reads a public or private key.
    pub(super) fn parse(secret: &Secret, algorithm: PublicAlgorithm) -> Result<Self, &'static str> {
        let text = secret.expose().trim();
        if text.is_empty() {
            return Err("is empty; set it, or remove it from the list");
        }
        if text.starts_with("whsec_") {
            return Err("is a shared secret (`whsec_…`); this scheme takes the sender's public key");
        }
        if let Some(pkcs8) = pkcs8(text) {
            return Self::from_pkcs8(&pkcs8?, algorithm);
        }
        if let Some(seed) = text.strip_prefix(PRIVATE_PREFIX) {
            let seed = STANDARD.decode(seed).map_err(|_| NO_PRIVATE_KEY)?;
            return Self::from_seed(&seed, algorithm);
        }
        let bytes = public_bytes(text).ok_or(NO_PUBLIC_KEY)?;
        Self::from_public(&bytes, algorithm)
    }

    /// The key of a certificate: its SubjectPublicKeyInfo.
    pub(super) fn from_spki(spki: &[u8], algorithm: PublicAlgorithm) -> Result<Self, &'static str> {
        Self::from_public(spki, algorithm)
    }

    fn from_public(bytes: &[u8], algorithm: PublicAlgorithm) -> Result<Self, &'static str> {
        let bytes = match algorithm {
            PublicAlgorithm::Ed25519 => Some(bytes.strip_prefix(ED25519_SPKI).unwrap_or(bytes))
                .filter(|b| b.len() == ED25519_KEY_BYTES),
            PublicAlgorithm::EcdsaP256 => Some(bytes.strip_prefix(P256_SPKI).unwrap_or(bytes))
                .filter(|point| point.len() == P256_POINT_BYTES && point.starts_with(&[4])),
            PublicAlgorithm::Rsa => rsa_key(bytes),
        };
        Ok(Self { algorithm, bytes: bytes.ok_or(NO_PUBLIC_KEY)?.to_vec(), private: None })
    }

    fn from_seed(seed: &[u8], algorithm: PublicAlgorithm) -> Result<Self, &'static str> {
        if algorithm != PublicAlgorithm::Ed25519 {
            return Err(NO_PRIVATE_KEY);
        }
        // Some libraries append the public half, and then it must fit.
        let pair = match seed.split_at_checked(ED25519_KEY_BYTES) {
            Some((seed, [])) => Ed25519KeyPair::from_seed_unchecked(seed),
            Some((seed, public)) => Ed25519KeyPair::from_seed_and_public_key(seed, public),
            None => return Err(NO_PRIVATE_KEY),
        };
        Ok(Self::of_pair(PrivateKey::Ed25519(pair.map_err(|_| NO_PRIVATE_KEY)?)))
    }

    fn from_pkcs8(pkcs8: &[u8], algorithm: PublicAlgorithm) -> Result<Self, &'static str> {
        let pair = match algorithm {
            PublicAlgorithm::Ed25519 => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map(PrivateKey::Ed25519)
            }
            PublicAlgorithm::EcdsaP256 => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new())
                    .map(PrivateKey::Ecdsa)
            }
            PublicAlgorithm::Rsa => RsaKeyPair::from_pkcs8(pkcs8).map(PrivateKey::Rsa),
        };
        Ok(Self::of_pair(pair.map_err(|_| NO_PRIVATE_KEY)?))
    }

    fn of_pair(pair: PrivateKey) -> Self {
        let (algorithm, bytes) = match &pair {
            PrivateKey::Ed25519(pair) => (PublicAlgorithm::Ed25519, pair.public_key().as_ref().to_vec()),
            PrivateKey::Ecdsa(pair) => (PublicAlgorithm::EcdsaP256, pair.public_key().as_ref().to_vec()),
            PrivateKey::Rsa(pair) => (PublicAlgorithm::Rsa, pair.public_key().as_ref().to_vec()),
        };
        Self { algorithm, bytes, private: Some(Arc::new(pair)) }
    }

    pub(super) fn can_sign(&self) -> bool {
        self.private.is_some()
    }

    /// The public half, as ring takes it.
    pub(super) fn public_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn signature::VerificationAlgorithm = match self.algorithm {
            PublicAlgorithm::Ed25519 => &ED25519,
            PublicAlgorithm::EcdsaP256 => &ECDSA_P256_SHA256_ASN1,
            PublicAlgorithm::Rsa => &RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok()
    }

    /// `None` when only the public half is known, or the system has no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match self.private.as_deref()? {
            PrivateKey::Ed25519(pair) => Some(pair.sign(message).as_ref().to_vec()),
            PrivateKey::Ecdsa(pair) => {
                pair.sign(&SystemRandom::new(), message).ok().map(|signature| signature.as_ref().to_vec())
            }
            PrivateKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

/// Reads what a sender wrote. Only what the algorithm cannot have made is refused.
pub(super) fn decode_signature(
    text: &str,
    encoding: Encoding,
    algorithm: PublicAlgorithm,
) -> Result<Vec<u8>, &'static str> {
    let longest = match algorithm {
        PublicAlgorithm::Ed25519 => ED25519_SIGNATURE_BYTES,
        PublicAlgorithm::EcdsaP256 => MAX_ECDSA_SIGNATURE_BYTES,
        PublicAlgorithm::Rsa => MAX_RSA_SIGNATURE_BYTES,
    };
    let bytes = match encoding {
        Encoding::Hex if text.len() > longest * 2 => None,
        Encoding::Hex => Some(hex::decode(text).map_err(|_| "the signature is not hex")?),
        Encoding::Base64 if text.len() > longest.div_ceil(3) * 4 => None,
        Encoding::Base64 => Some(STANDARD.decode(text).map_err(|_| "the signature is not base64")?),
    };
    let fits = |bytes: &Vec<u8>| match algorithm {
        PublicAlgorithm::Ed25519 => bytes.len() == ED25519_SIGNATURE_BYTES,
        PublicAlgorithm::EcdsaP256 | PublicAlgorithm::Rsa => !bytes.is_empty() && bytes.len() <= longest,
    };
    bytes.filter(fits).ok_or("the signature has the wrong length for this algorithm")
}

pub(super) fn encode_signature(signature: &[u8], encoding: Encoding) -> String {
    match encoding {
        Encoding::Hex => hex::encode(signature),
        Encoding::Base64 => STANDARD.encode(signature),
    }
}

/// A private key in PKCS#8, if `text` is one.
fn pkcs8(text: &str) -> Option<Result<Vec<u8>, &'static str>> {
    if let Some(base64) = text.strip_prefix(PKCS8_PREFIX) {
        return Some(STANDARD.decode(base64).map_err(|_| NO_PRIVATE_KEY));
    }
    let body = text.strip_prefix("-----BEGIN PRIVATE KEY-----")?;
    Some(pem_body(body, "-----END PRIVATE KEY-----").ok_or(NO_PRIVATE_KEY))
}

fn public_bytes(text: &str) -> Option<Vec<u8>> {
    if let Some(body) = text.strip_prefix("-----BEGIN PUBLIC KEY-----") {
        return pem_body(body, "-----END PUBLIC KEY-----");
    }
    let text = text.strip_prefix(PUBLIC_PREFIX).unwrap_or(text);
    if text.len() == ED25519_KEY_BYTES * 2
        && let Ok(bytes) = hex::decode(text)
    {
        return Some(bytes);
    }
    STANDARD.decode(text).ok()
}

fn pem_body(text: &str, end: &str) -> Option<Vec<u8>> {
    let base64: String = text.split(end).next()?.split_whitespace().collect();
    STANDARD.decode(base64).ok()
}

/// The `RSAPublicKey` in a SubjectPublicKeyInfo.
fn rsa_key(spki: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    let inner = der_value(spki, SEQUENCE)?;
    let key = der_value(inner.strip_prefix(RSA_ALGORITHM)?, BIT_STRING)?;
    // No bit of the last byte is unused.
    key.strip_prefix(&[0])
}

/// The content of the one DER value that `bytes` is.
fn der_value(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    const LONG_FORM: u8 = 0x80;
    let (&first, rest) = bytes.strip_prefix(&[tag])?.split_first()?;
    let (length, content) = if first < LONG_FORM {
        (usize::from(first), rest)
    } else {
        let (digits, content) = rest.split_at_checked(usize::from(first - LONG_FORM))?;
        if digits.len() > 2 {
            return None;
        }
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), content)
    };
    (content.len() == length).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P256: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
    const ED25519_HEX: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";

    fn parse(text: &str, algorithm: PublicAlgorithm) -> Result<PublicKey, &'static str> {
        PublicKey::parse(&Secret::new(text), algorithm)
    }

    #[test]
    fn one_key_is_read_in_all_its_forms() {
        let raw = hex::decode(ED25519_HEX).unwrap();
        let spki = [ED25519_SPKI, &raw].concat();
        let base64 = STANDARD.encode(&spki);
        for form in [
            ED25519_HEX.to_owned(),
            STANDARD.encode(&raw),
            format!("whpk_{}", STANDARD.encode(&raw)),
            base64.clone(),
            format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n"),
            // The private key it belongs to: the bytes 0 to 31.
            format!("whsk_{}", STANDARD.encode((0..32).collect::<Vec<u8>>())),
        ] {
            let key = parse(&form, PublicAlgorithm::Ed25519).unwrap();
            assert_eq!(key.public_bytes(), raw, "{form}");
        }
        assert!(parse(P256, PublicAlgorithm::EcdsaP256).is_ok());
    }

    #[test]
    fn what_is_no_key_of_the_algorithm_is_refused() {
        for (text, algorithm) in [
            ("", PublicAlgorithm::Ed25519),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", PublicAlgorithm::Ed25519),
            (P256, PublicAlgorithm::Ed25519),
            (P256, PublicAlgorithm::Rsa),
            (ED25519_HEX, PublicAlgorithm::EcdsaP256),
            (&ED25519_HEX[2..], PublicAlgorithm::Ed25519),
            ("whsk_AAAA", PublicAlgorithm::Ed25519),
            ("pkcs8:AAAA", PublicAlgorithm::EcdsaP256),
            ("-----BEGIN PRIVATE KEY-----", PublicAlgorithm::Rsa),
            ("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A", PublicAlgorithm::Rsa),
        ] {
            assert!(parse(text, algorithm).is_err(), "{text}");
        }
    }

    #[test]
    fn der_lengths_that_lie_are_no_value() {
        assert_eq!(der_value(&[0x30, 1, 7], 0x30), Some(&[7][..]));
        assert_eq!(der_value(&[0x30, 0x81, 1, 7], 0x30), Some(&[7][..]));
        for bytes in
            [&[][..], &[0x30], &[0x30, 2, 7], &[0x30, 0, 7], &[0x30, 0x83, 0, 0, 1, 7], &[0x30, 0xff]]
        {
            assert_eq!(der_value(bytes, 0x30), None);
        }
    }
}
