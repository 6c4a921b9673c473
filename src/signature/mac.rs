//! Keyed hashes whose key is already worked in, and the two ways their output is written.
//!
//! Comparison is in constant time and over decoded bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq as _;

use super::config::{Encoding, Hash};

/// Longest output of the hashes here (SHA-512).
const MAX_TAG_BYTES: usize = 64;

/// Decoders of base64 may write whole groups: one group more than the longest output.
const DECODE_BUFFER_BYTES: usize = MAX_TAG_BYTES + 3;

/// An HMAC with its key worked in: cloned for each message, which spares hashing the key again.
#[derive(Clone)]
pub(super) enum KeyedMac {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

impl KeyedMac {
    pub(super) fn new(hash: Hash, key: &[u8]) -> Self {
        // HMAC hashes keys that are longer than a block, so no length is refused.
        const ANY_LENGTH: &str = "HMAC takes keys of any length";
        match hash {
            Hash::Sha1 => Self::Sha1(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
            Hash::Sha256 => Self::Sha256(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
            Hash::Sha512 => Self::Sha512(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
        }
    }

    pub(super) fn update(&mut self, part: &[u8]) {
        match self {
            Self::Sha1(mac) => mac.update(part),
            Self::Sha256(mac) => mac.update(part),
            Self::Sha512(mac) => mac.update(part),
        }
    }

    pub(super) fn finish(self) -> Tag {
        let mut bytes = [0; DECODE_BUFFER_BYTES];
        let len = match self {
            Self::Sha1(mac) => store(&mut bytes, &mac.finalize().into_bytes()),
            Self::Sha256(mac) => store(&mut bytes, &mac.finalize().into_bytes()),
            Self::Sha512(mac) => store(&mut bytes, &mac.finalize().into_bytes()),
        };
        Tag { bytes, len }
    }
}

fn store(buffer: &mut [u8; DECODE_BUFFER_BYTES], output: &[u8]) -> usize {
    buffer[..output.len()].copy_from_slice(output);
    output.len()
}

/// The output of an HMAC, ours or one that was sent.
#[derive(Clone, Copy)]
pub(super) struct Tag {
    bytes: [u8; DECODE_BUFFER_BYTES],
    len: usize,
}

impl Tag {
    /// Reads what a sender wrote. The length must be that of the hash.
    pub(super) fn decode(text: &[u8], encoding: Encoding, hash: Hash) -> Result<Self, &'static str> {
        let len = tag_bytes(hash);
        let mut bytes = [0; DECODE_BUFFER_BYTES];
        match encoding {
            Encoding::Hex => {
                if text.len() != len * 2 {
                    return Err("the signature has the wrong length for hex of this hash");
                }
                hex::decode_to_slice(text, &mut bytes[..len]).map_err(|_| "the signature is not hex")?;
            }
            Encoding::Base64 => {
                if text.len() != len.div_ceil(3) * 4 {
                    return Err("the signature has the wrong length for base64 of this hash");
                }
                let decoded = STANDARD.decode_slice(text, &mut bytes);
                if decoded.map_err(|_| "the signature is not base64")? != len {
                    return Err("the signature has the wrong length for base64 of this hash");
                }
            }
        }
        Ok(Self { bytes, len })
    }

    pub(super) fn encode(&self, encoding: Encoding) -> String {
        match encoding {
            Encoding::Hex => hex::encode(&self.bytes[..self.len]),
            Encoding::Base64 => STANDARD.encode(&self.bytes[..self.len]),
        }
    }

    /// Compares in constant time.
    pub(super) fn matches(&self, other: &Self) -> bool {
        self.bytes[..self.len].ct_eq(&other.bytes[..other.len]).into()
    }
}

fn tag_bytes(hash: Hash) -> usize {
    match hash {
        Hash::Sha1 => 20,
        Hash::Sha256 => 32,
        Hash::Sha512 => 64,
    }
}
