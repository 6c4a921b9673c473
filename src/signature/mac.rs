//! Hashes with and without a key, and the two ways their output is written.
//!
//! Comparison is in constant time and over decoded bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use subtle::ConstantTimeEq as _;

use super::config::{Encoding, Hash};

/// Longest output of the hashes here (SHA-512).
const MAX_TAG_BYTES: usize = 64;

/// Decoders of base64 may write whole groups: one group more than the longest output.
const DECODE_BUFFER_BYTES: usize = MAX_TAG_BYTES + 3;

/// An HMAC with its key worked in, cloned for each message, which spares hashing the key again;
/// or a plain hash, whose message then holds the secret.
#[derive(Clone)]
pub(super) enum Mac {
    HmacSha1(Hmac<Sha1>),
    HmacSha256(Hmac<Sha256>),
    HmacSha512(Hmac<Sha512>),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Mac {
    pub(super) fn keyed(hash: Hash, key: &[u8]) -> Self {
        // HMAC hashes keys that are longer than a block, so no length is refused.
        const ANY_LENGTH: &str = "HMAC takes keys of any length";
        match hash {
            Hash::Sha1 => Self::HmacSha1(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
            Hash::Sha256 => Self::HmacSha256(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
            Hash::Sha512 => Self::HmacSha512(Hmac::new_from_slice(key).expect(ANY_LENGTH)),
        }
    }

    pub(super) fn plain(hash: Hash) -> Self {
        match hash {
            Hash::Sha1 => Self::Sha1(Sha1::new()),
            Hash::Sha256 => Self::Sha256(Sha256::new()),
            Hash::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(super) fn hash(&self) -> Hash {
        match self {
            Self::HmacSha1(_) | Self::Sha1(_) => Hash::Sha1,
            Self::HmacSha256(_) | Self::Sha256(_) => Hash::Sha256,
            Self::HmacSha512(_) | Self::Sha512(_) => Hash::Sha512,
        }
    }

    pub(super) fn update(&mut self, part: &[u8]) {
        match self {
            Self::HmacSha1(mac) => mac.update(part),
            Self::HmacSha256(mac) => mac.update(part),
            Self::HmacSha512(mac) => mac.update(part),
            Self::Sha1(hash) => hash.update(part),
            Self::Sha256(hash) => hash.update(part),
            Self::Sha512(hash) => hash.update(part),
        }
    }

    pub(super) fn finish(self) -> Tag {
        let mut bytes = [0; DECODE_BUFFER_BYTES];
        let len = match self {
            Self::HmacSha1(mac) => store(&mut bytes, &mac.finalize().into_bytes()),
            Self::HmacSha256(mac) => store(&mut bytes, &mac.finalize().into_bytes()),
            Self::HmacSha512(mac) => store(&mut bytes, &mac.finalize().into_bytes()),
            Self::Sha1(hash) => store(&mut bytes, &hash.finalize()),
            Self::Sha256(hash) => store(&mut bytes, &hash.finalize()),
            Self::Sha512(hash) => store(&mut bytes, &hash.finalize()),
        };
        Tag { bytes, len }
    }

    /// The tag of a message in parts; `self` keeps its key for the next.
    pub(super) fn over<'m>(&self, parts: impl IntoIterator<Item = &'m [u8]>) -> Tag {
        let mut mac = self.clone();
        for part in parts {
            mac.update(part);
        }
        mac.finish()
    }
}

fn store(buffer: &mut [u8; DECODE_BUFFER_BYTES], output: &[u8]) -> usize {
    buffer[..output.len()].copy_from_slice(output);
    output.len()
}

/// The output of a hash, ours or one that was sent.
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

/// SHA-256 of a text: two texts are compared by it in constant time, whatever their lengths.
pub(super) fn sha256(text: &[u8]) -> Tag {
    Mac::plain(Hash::Sha256).over([text])
}
