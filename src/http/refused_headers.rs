//! The headers of a refused delivery, as the ledger keeps them: for a person who looks for the cause.
//!
//! Whatever authenticates a sender is named and not shown. Everything is bounded: who floods us with
//! refused deliveries must not fill the ledger's buffer with their heads.

use actix_web::http::header::HeaderMap;

use crate::secret_headers::is_secret;
use crate::signature::Verifier;

const MAX_HEADERS: usize = 40;
const MAX_NAME_BYTES: usize = 80;
const MAX_VALUE_BYTES: usize = 160;
/// Of all names and values together.
const MAX_BYTES: usize = 3 * 1024;

/// Name and value of each header, in order of arrival.
pub(super) fn shown(headers: &HeaderMap, verifier: &Verifier) -> Vec<(String, String)> {
    let mut bytes = 0;
    let mut shown = Vec::new();
    for (name, value) in headers {
        let name = name.as_str();
        let value = if is_secret(name) || verifier.is_proof(name) {
            format!("[hidden, {} bytes]", value.len())
        } else {
            cut(&String::from_utf8_lossy(value.as_bytes()), MAX_VALUE_BYTES)
        };
        let name = cut(name, MAX_NAME_BYTES);
        bytes += name.len() + value.len();
        if bytes > MAX_BYTES || shown.len() == MAX_HEADERS {
            shown.push(("…".to_owned(), format!("{} more headers", headers.len() - shown.len())));
            break;
        }
        shown.push((name, value));
    }
    shown
}

/// The beginning of a text, on a character boundary.
fn cut(text: &str, limit: usize) -> String {
    match text.len() {
        length if length <= limit => text.to_owned(),
        length => {
            let kept = &text[..text.floor_char_boundary(limit)];
            format!("{kept}… ({length} bytes)")
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::secret::Secret;
    use crate::signature::VerifyConfig;

    fn verifier(config: &str) -> Verifier {
        let config: VerifyConfig = toml::from_str(config).expect("valid");
        Verifier::new(&config, vec![Secret::new("s3cret")]).expect("valid")
    }

    fn map(headers: &[(&'static str, &[u8])]) -> HeaderMap {
        headers
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_bytes(v).expect("bytes")))
            .collect()
    }

    #[test]
    fn what_authenticates_is_named_and_not_shown() {
        let headers = map(&[
            ("authorization", b"Bearer s3cret"),
            ("x-key", b"s3cret"),
            ("x-proof", b"s3cret"),
            ("x-time", b"17"),
            ("x-api-key", b"s3cret"),
            ("x-mac-sig", b"s3cret"),
        ]);
        for config in ["scheme = 'token'\nheader = 'X-Key'", "scheme = 'hmac'\nheader = 'X-Proof'"] {
            let shown = shown(&headers, &verifier(config));
            assert!(shown.contains(&("authorization".into(), "[hidden, 13 bytes]".into())), "{shown:?}");
            assert!(shown.contains(&("x-time".into(), "17".into())), "{shown:?}");
            let hidden = shown.iter().filter(|(_, value)| value.starts_with("[hidden")).count();
            assert_eq!(hidden, 4, "{shown:?}");
        }
    }

    #[test]
    fn no_head_is_too_large_to_keep() {
        let verifier = verifier("scheme = 'bearer'");
        let value = "\u{e9}".repeat(4000);
        let mut headers = map(&[("x-long", value.as_bytes()), ("x-bytes", b"\xff\xe9")]);
        for number in 0..200 {
            let name = format!("x-{number}-{}", "n".repeat(200));
            headers.insert(HeaderName::try_from(name).expect("a name"), HeaderValue::from_static("v"));
        }
        let shown = shown(&headers, &verifier);
        assert!(shown.len() <= MAX_HEADERS + 1);
        let bytes: usize = shown.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= MAX_BYTES + MAX_NAME_BYTES, "{bytes}");
        assert!(shown.last().expect("some").1.contains("more headers"));
    }
}
