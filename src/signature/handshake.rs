//! How senders ask whether an address is ours, and what they want to hear.
//!
//! Pure functions of a request. A question that its sender signs is answered only if the signature
//! holds; otherwise it is an ordinary delivery, and refused as one. No question is an event.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::json;

use super::json;
use super::mac::sha256;
use super::reading::single;
use super::{Verified, Verifier};
use crate::envelope::form_decode;
use crate::event::RawRequest;
use crate::json_scan::JsonKind;
use crate::reply::Reply;

/// Questions are short; what is longer is an event and need not be looked at.
const MAX_QUESTION_BYTES: usize = 8 * 1024;

/// Longest text that is sent back.
const MAX_ECHO_BYTES: usize = 1024;

/// How a sender asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    None,
    /// A signed `url_verification` with a challenge.
    Slack,
    /// A signed `endpoint.url_validation`, answered with a keyed hash of its token.
    Zoom,
    /// `GET` with `hub.challenge` and a token that was agreed upon.
    Meta,
    /// `GET` with `challenge`.
    Dropbox,
    /// A signed `webhook_callback_verification` with a challenge.
    Twitch,
    /// A signed ping.
    Discord,
    /// A signed delivery of no events.
    Xero,
    /// `OPTIONS` with `WebHook-Request-Origin`.
    CloudEvents,
}

impl HandshakeKind {
    /// The methods, beside `POST`, that a source with this handshake answers.
    #[must_use]
    pub fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Meta | Self::Dropbox => &["GET"],
            Self::CloudEvents => &["OPTIONS"],
            Self::None | Self::Slack | Self::Zoom | Self::Twitch | Self::Discord | Self::Xero => &[],
        }
    }

    /// Whether the question comes as a signed delivery does.
    fn is_signed(self) -> bool {
        match self {
            Self::Slack | Self::Zoom | Self::Twitch | Self::Discord | Self::Xero => true,
            Self::None | Self::Meta | Self::Dropbox | Self::CloudEvents => false,
        }
    }

    /// What a request of one of [`methods`](Self::methods) asks with.
    #[must_use]
    pub fn asks(self) -> &'static str {
        match self {
            Self::Meta => "it needs hub.mode=subscribe, hub.challenge, and a verify.handshake_token set here",
            Self::Dropbox => "it needs a challenge in its query",
            Self::CloudEvents => "it needs the header webhook-request-origin",
            Self::None | Self::Slack | Self::Zoom | Self::Twitch | Self::Discord | Self::Xero => {
                "it asks with a signed POST"
            }
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::None => "–",
            Self::Slack => "challenge",
            Self::Zoom => "keyed challenge",
            Self::Meta => "`GET` with a token (`handshake_token`)",
            Self::Dropbox => "`GET` challenge",
            Self::Twitch => "challenge",
            Self::Discord => "ping",
            Self::Xero => "intent to receive",
            Self::CloudEvents => "`OPTIONS`",
        }
    }
}

impl Verifier {
    /// The answer to a question; `None`: it is none, or not one that this sender signed.
    #[must_use]
    pub fn handshake(&self, method: &str, request: &RawRequest, now: DateTime<Utc>) -> Option<Reply> {
        match (self.handshake_kind(), method) {
            (HandshakeKind::Meta, "GET") => self.subscription(request),
            (HandshakeKind::Dropbox, "GET") => {
                let challenge = echo(parameter(&request.target, "challenge")?)?;
                Some(text(200, challenge))
            }
            (HandshakeKind::CloudEvents, "OPTIONS") => consent(request),
            (_, "POST") => self.signed_question(request, &self.verify(method, request, now).ok()?),
            _ => None,
        }
    }

    /// The answer to a question that came as a delivery does and was verified as one; `None`: it is
    /// an ordinary delivery. Costs nothing for senders that do not ask in this way.
    #[must_use]
    pub fn signed_question(&self, request: &RawRequest, verified: &Verified) -> Option<Reply> {
        let kind = self.handshake_kind();
        if !kind.is_signed() || request.body.len() > MAX_QUESTION_BYTES {
            return None;
        }
        let root = json::root(&request.body).ok()?;
        let is =
            |pointer, expected: &str| json::text_at(root, pointer).is_some_and(|found| found == expected);
        match kind {
            HandshakeKind::Slack if is("/type", "url_verification") => {
                let challenge = echo(json::text_at(root, "/challenge")?.into_owned())?;
                Some(text(200, challenge))
            }
            HandshakeKind::Zoom if is("/event", "endpoint.url_validation") => {
                let token = echo(json::text_at(root, "/payload/plainToken")?.into_owned())?;
                let encrypted = self.keyed_hash(verified.secret_index?, token.as_bytes())?;
                Some(Reply::json(200, &json!({"plainToken": token, "encryptedToken": encrypted})))
            }
            HandshakeKind::Twitch => {
                let kind = single(request, "twitch-eventsub-message-type").ok()?;
                if kind != "webhook_callback_verification" {
                    return None;
                }
                let challenge = echo(json::text_at(root, "/challenge")?.into_owned())?;
                Some(text(200, challenge))
            }
            // An interaction pings with type 1, which in a webhook event is what carries an event.
            HandshakeKind::Discord if is("/type", "1") && json::at(root, "/event").is_none() => {
                Some(Reply::json(200, &json!({"type": 1})))
            }
            HandshakeKind::Discord if is("/type", "0") => Some(empty(204)),
            HandshakeKind::Xero => {
                let events = json::at(root, "/events").filter(|events| events.kind() == JsonKind::Array)?;
                if events.elements().next().is_some() {
                    return None;
                }
                Some(empty(200))
            }
            _ => None,
        }
    }

    /// Meta's question is not signed; the token shows that it comes from who set the webhook up.
    fn subscription(&self, request: &RawRequest) -> Option<Reply> {
        if parameter(&request.target, "hub.mode")? != "subscribe" {
            return None;
        }
        let challenge = echo(parameter(&request.target, "hub.challenge")?)?;
        let shown = parameter(&request.target, "hub.verify_token").unwrap_or_default();
        let agreed = self.handshake_token()?;
        let is_right = sha256(agreed.expose().as_bytes()).matches(&sha256(shown.as_bytes()));
        Some(if is_right { text(200, challenge) } else { empty(403) })
    }
}

/// What CloudEvents calls a validation request: may this origin send, and how often?
fn consent(request: &RawRequest) -> Option<Reply> {
    let origin = echo(single(request, "webhook-request-origin").ok()?.to_owned())?;
    let mut headers = vec![("allow".into(), "POST".into()), ("webhook-allowed-origin".into(), origin.into())];
    if request.headers.contains("webhook-request-rate") {
        headers.push(("webhook-allowed-rate".into(), "*".into()));
    }
    Some(Reply { status: 200, headers, body: Bytes::new() })
}

fn text(status: u16, body: String) -> Reply {
    // What is sent back is the asker's text: no browser may take it for a page.
    let headers = vec![
        ("content-type".into(), "text/plain; charset=utf-8".into()),
        ("x-content-type-options".into(), "nosniff".into()),
    ];
    Reply { status, headers, body: Bytes::from(body) }
}

fn empty(status: u16) -> Reply {
    Reply { status, headers: Vec::new(), body: Bytes::new() }
}

/// A text that may be sent back: short and printable.
fn echo(text: String) -> Option<String> {
    let is_fit =
        !text.is_empty() && text.len() <= MAX_ECHO_BYTES && text.bytes().all(|b| matches!(b, b' '..=b'~'));
    is_fit.then_some(text)
}

/// A parameter of the query, decoded. The first of several counts.
fn parameter(target: &str, name: &str) -> Option<String> {
    let (_, query) = target.split_once('?')?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(found, _)| form_decode(found.as_bytes()) == name.as_bytes())?;
    String::from_utf8(form_decode(value.as_bytes())).ok()
}
