//! Senders that show a secret instead of signing: bearer tokens, a token in a header of its own,
//! basic authentication.
//!
//! Whoever reads one delivery can make others, so these need TLS all the way. The word before a
//! credential is compared without regard to case, the credential exactly and in constant time.

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use chrono::{DateTime, Utc};

use super::Verified;
use super::config::VerifyConfigError;
use super::key::{self, Dated};
use super::knob_check::{header_name, printable};
use super::mac::{Tag, sha256};
use super::reading::{query_parameter, single};
use super::refusal::{Refusal, SignError};
use crate::envelope::form_decode;
use crate::event::RawRequest;
use crate::secret::Secret;

const AUTHORIZATION: &str = "authorization";

/// Senders write basic credentials with and without padding.
const LENIENT_PADDING: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Where the token stands.
#[derive(Clone, Copy)]
pub(super) enum TokenPlace<'a> {
    /// A header that is the token, behind a prefix that may be empty.
    Header { name: &'a str, prefix: &'a str },
    /// `Authorization: Bearer …`
    Bearer,
    /// The same, or else this parameter of the query.
    BearerOrQuery(&'static str),
    /// `Authorization: Basic …`; the secret is `user:password`.
    Basic,
}

#[derive(Clone)]
pub(super) struct TokenScheme {
    place: Place,
    tokens: Vec<Token>,
}

#[derive(Clone)]
enum Place {
    Header { name: String, prefix: String },
    Authorization { word: &'static str, query: Option<&'static str> },
}

#[derive(Clone)]
struct Token {
    secret: Secret,
    digest: Tag,
    not_after: Option<DateTime<Utc>>,
}

const BEARER: &str = "Bearer";
const BASIC: &str = "Basic";

impl TokenScheme {
    pub(super) fn new(
        scheme: &'static str,
        place: TokenPlace<'_>,
        secrets: &[Dated],
    ) -> Result<Self, VerifyConfigError> {
        let tokens = key::each(scheme, secrets, |dated| {
            let text = dated.secret.expose();
            if text.is_empty() || text.trim() != text {
                return Err("is empty, or begins or ends with white space; correct it");
            }
            if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !matches!(place, TokenPlace::Basic) {
                return Err("is not printable ASCII, so no header can carry it");
            }
            if matches!(place, TokenPlace::Basic) && !text.contains(':') {
                return Err("has no colon; write \"user:password\"");
            }
            let digest = sha256(text.as_bytes());
            Ok(Token { secret: dated.secret.clone(), digest, not_after: dated.not_after })
        })?;
        let place = match place {
            TokenPlace::Header { name, prefix } => {
                Place::Header { name: header_name("header", name)?, prefix: printable("prefix", prefix)? }
            }
            TokenPlace::Bearer => Place::Authorization { word: BEARER, query: None },
            TokenPlace::BearerOrQuery(name) => Place::Authorization { word: BEARER, query: Some(name) },
            TokenPlace::Basic => Place::Authorization { word: BASIC, query: None },
        };
        Ok(Self { place, tokens })
    }

    pub(super) fn secret_count(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn header(&self) -> &str {
        match &self.place {
            Place::Header { name, .. } => name,
            Place::Authorization { .. } => AUTHORIZATION,
        }
    }

    pub(super) fn verify(&self, request: &RawRequest, now: DateTime<Utc>) -> Result<Verified, Refusal> {
        let (shown, place) = self.shown(request)?;
        let digest = sha256(&shown);
        let mut expired = None;
        for (index, token) in self.tokens.iter().enumerate() {
            if !token.digest.matches(&digest) {
                continue;
            }
            match token.not_after {
                Some(not_after) if now > not_after => {
                    expired.get_or_insert(Refusal::ExpiredSecret { number: index + 1, not_after });
                }
                _ => return Ok(Verified { secret_index: Some(index), timestamp: None }),
            }
        }
        Err(expired.unwrap_or(Refusal::WrongToken { place }))
    }

    /// The credential as it was shown, and where.
    fn shown(&self, request: &RawRequest) -> Result<(Vec<u8>, String), Refusal> {
        let (word, query) = match &self.place {
            Place::Header { name, prefix } => {
                let text = single(request, name)?;
                let text = text.strip_prefix(prefix.as_str()).ok_or_else(|| Refusal::MalformedHeader {
                    header: name.clone(),
                    problem: "it does not begin with the configured prefix",
                })?;
                return Ok((text.as_bytes().to_vec(), format!("header `{name}`")));
            }
            Place::Authorization { word, query } => (*word, *query),
        };
        if !request.headers.contains(AUTHORIZATION)
            && let Some(name) = query
        {
            let place = format!("`{name}` of the query, or header `{AUTHORIZATION}`");
            let Some(token) = query_parameter(&request.target, name) else {
                return Err(Refusal::MissingToken { place });
            };
            return Ok((form_decode(token.as_bytes()), place));
        }
        let text = single(request, AUTHORIZATION)?.trim_matches([' ', '\t']);
        let malformed = |problem| Refusal::MalformedHeader { header: AUTHORIZATION.to_owned(), problem };
        let (found, credential) =
            text.split_once(' ').ok_or(malformed("it is not a word and a credential"))?;
        if !found.eq_ignore_ascii_case(word) {
            return Err(malformed("it begins with the word of another kind of credential"));
        }
        // RFC 9110 allows several blanks.
        let credential = credential.trim_start_matches(' ');
        let shown = if word == BASIC {
            LENIENT_PADDING.decode(credential).map_err(|_| malformed("its credential is not base64"))?
        } else {
            credential.as_bytes().to_vec()
        };
        Ok((shown, format!("header `{AUTHORIZATION}`")))
    }

    pub(super) fn sign(&self, now: DateTime<Utc>) -> Result<Vec<(String, String)>, SignError> {
        let mut usable = self.tokens.iter().filter(|token| !key::is_over(token.not_after, now));
        let secret = usable.next().ok_or(SignError::AllExpired)?.secret.expose();
        Ok(vec![match &self.place {
            Place::Header { name, prefix } => (name.clone(), format!("{prefix}{secret}")),
            Place::Authorization { word: BASIC, .. } => {
                (AUTHORIZATION.to_owned(), format!("{BASIC} {}", STANDARD.encode(secret)))
            }
            Place::Authorization { word, .. } => (AUTHORIZATION.to_owned(), format!("{word} {secret}")),
        }])
    }
}
