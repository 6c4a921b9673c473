//! What handlers see of a request's headers: all but what authenticates the sender.
//!
//! The same on every store. Knows no SQL.

use crate::event::RawRequest;
use crate::secret_headers::is_secret;

/// The headers as a JSON object. A repeated name has its values joined, as HTTP reads them.
pub(super) fn visible_headers(request: &RawRequest) -> String {
    let mut visible: serde_json::Map<String, serde_json::Value> = serde_json::Map::new();
    for (name, value) in request.headers.iter() {
        if is_secret(name) {
            continue;
        }
        let value = String::from_utf8_lossy(value);
        match visible.get_mut(name) {
            Some(serde_json::Value::String(values)) => {
                values.push_str(", ");
                values.push_str(&value);
            }
            _ => {
                visible.insert(name.to_owned(), value.into_owned().into());
            }
        }
    }
    serde_json::Value::Object(visible).to_string()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::raw_headers::RawHeaders;

    #[test]
    fn handlers_do_not_see_what_authenticates_the_sender() {
        let request = RawRequest {
            target: "/".into(),
            headers: RawHeaders::from_iter([
                ("x-a", "1"),
                ("authorization", "s3cret"),
                ("cookie", "s3cret"),
                ("x-hub-signature-256", "s3cret"),
                ("x-shopify-hmac-sha256", "s3cret"),
                ("x-gitlab-token", "s3cret"),
                ("x-client-secret", "s3cret"),
                ("x-api-key", "s3cret"),
                ("paypal-transmission-sig", "s3cret"),
                ("x-a", "2"),
            ]),
            body: Bytes::new(),
        };
        assert_eq!(visible_headers(&request), r#"{"x-a":"1, 2"}"#);
    }
}
