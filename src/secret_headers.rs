//! Which headers are for us alone, told by their names: what authenticates a sender.
//!
//! Neither handlers nor operators see their values. Knows nothing of requests or stores; what a
//! source's own scheme reads as proof, its verifier knows (`Verifier::is_proof`).

const NAMES: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];
const WORDS: [&str; 7] = ["signature", "hmac", "token", "secret", "password", "api-key", "apikey"];
const ENDING: &str = "-sig";

/// Whether a header of this (lower-case) name is for us alone.
pub(crate) fn is_secret(name: &str) -> bool {
    NAMES.contains(&name) || WORDS.iter().any(|word| name.contains(word)) || name.ends_with(ENDING)
}
