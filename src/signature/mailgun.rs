//! Mailgun: a signature inside the body, over a timestamp and a token and nothing else.
//!
//! The rest of the body is not signed: whoever has seen one delivery can send another body with its
//! signature. What protects is TLS on the way, and a tolerance, if one is set.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Verified;
use super::config::{Encoding, Hash, SecretEncoding, TimestampUnit, VerifyConfigError};
use super::json;
use super::key::{self, Dated};
use super::knob_check;
use super::mac::{Mac, Tag, sha256};
use super::refusal::{Refusal, SignError};
use super::timestamp::{self, Window};
use crate::event::RawRequest;

/// Hex digits of a token, as Mailgun makes them.
const TOKEN_DIGITS: usize = 50;

#[derive(Clone)]
pub(super) struct MailgunScheme {
    keys: Vec<(Mac, Option<DateTime<Utc>>)>,
    window: Window,
}

impl MailgunScheme {
    pub(super) fn new(
        scheme: &'static str,
        window: Window,
        secrets: &[Dated],
    ) -> Result<Self, VerifyConfigError> {
        knob_check::window(window)?;
        let keys = key::each(scheme, secrets, |dated| {
            let key = key::decode(&dated.secret, SecretEncoding::Text, "")?;
            Ok((Mac::keyed(Hash::Sha256, &key), dated.not_after))
        })?;
        Ok(Self { keys, window })
    }

    pub(super) fn secret_count(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn replay_window(&self) -> Option<Duration> {
        Some(self.window.past? + self.window.future?)
    }

    pub(super) fn verify(&self, request: &RawRequest, now: DateTime<Utc>) -> Result<Verified, Refusal> {
        let unreadable = |problem| Refusal::UnreadableBody { problem };
        let root = json::root(&request.body).map_err(unreadable)?;
        let part = |pointer, problem| json::text_at(root, pointer).ok_or(unreadable(problem));
        let timestamp = part("/signature/timestamp", "it has no signature.timestamp")?;
        let token = part("/signature/token", "it has no signature.token")?;
        let sent = part("/signature/signature", "it has no signature.signature")?;
        let sent = Tag::decode(sent.as_bytes(), Encoding::Hex, Hash::Sha256).map_err(unreadable)?;
        let at = timestamp::parse(timestamp.as_bytes(), TimestampUnit::Seconds).map_err(unreadable)?;
        self.window.check(at, now, TimestampUnit::Seconds)?;
        let mut expired = None;
        for (index, (mac, not_after)) in self.keys.iter().enumerate() {
            if !mac.over([timestamp.as_bytes(), token.as_bytes()]).matches(&sent) {
                continue;
            }
            match not_after {
                Some(not_after) if now > *not_after => {
                    expired
                        .get_or_insert(Refusal::ExpiredSecret { number: index + 1, not_after: *not_after });
                }
                _ => return Ok(Verified { secret_index: Some(index), timestamp: Some(at) }),
            }
        }
        Err(expired.unwrap_or(Refusal::NoMatch { secrets: self.keys.len(), signatures: 1 }))
    }

    /// The body with a signature; the token is made from `id`, so one id gives one token.
    pub(super) fn sign(&self, body: &[u8], id: &str, now: DateTime<Utc>) -> Result<Vec<u8>, SignError> {
        let unfit = |problem| SignError::UnfitBody { problem };
        let mut usable = self.keys.iter().filter(|(_, not_after)| !key::is_over(*not_after, now));
        let (mac, _) = usable.next().ok_or(SignError::AllExpired)?;
        let mut root: Value = serde_json::from_slice(body).map_err(|_| unfit("it is not JSON"))?;
        let object = root.as_object_mut().ok_or(unfit("it is no object"))?;
        let timestamp = timestamp::format(now, TimestampUnit::Seconds);
        let token: String = sha256(id.as_bytes()).encode(Encoding::Hex).chars().take(TOKEN_DIGITS).collect();
        let signature = mac.over([timestamp.as_bytes(), token.as_bytes()]).encode(Encoding::Hex);
        object.insert(
            "signature".to_owned(),
            serde_json::json!({"timestamp": timestamp, "token": token, "signature": signature}),
        );
        Ok(root.to_string().into_bytes())
    }
}
