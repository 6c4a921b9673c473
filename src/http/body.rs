//! Reading a body, with a limit on everything: its size, its time, and what all bodies hold
//! together.
//!
//! A body that says it is too large is refused before a byte of it is read; one that turns out to
//! be is refused when it crosses the limit. Nothing beyond the limit is ever buffered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use actix_web::web::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use crate::http::state::Limits;
use crate::problem::Problem;

/// Largest buffer that is set aside on the word of a `Content-Length` alone.
const MAX_TRUSTED_CAPACITY: usize = 64 * 1024;

/// Longest body that is read although nobody wants it, so that its connection can go on.
const MAX_DISCARDED: usize = 64 * 1024;

/// How long such a body may take.
const DISCARD_WITHIN: Duration = Duration::from_millis(100);

/// A whole body. The memory it stands for is given back when this is dropped.
#[derive(Debug)]
pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    pub(super) reservation: Reservation,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body has a Content-Encoding")]
    Encoded,
    #[error("the body did not arrive within {} s", .within.as_secs())]
    TooSlow { within: Duration },
    #[error("the body ended early or its framing is broken")]
    Broken,
    #[error("the bodies of all open requests hold as much memory as they may")]
    NoRoom,
}

impl BodyError {
    pub(super) fn problem(self) -> Problem {
        match self {
            Self::TooLarge { .. } => Problem::BodyTooLarge,
            Self::Encoded => Problem::UnsupportedEncoding,
            Self::TooSlow { .. } => Problem::BodyTimeout,
            Self::Broken => Problem::MalformedRequest,
            Self::NoRoom => Problem::Unavailable,
        }
    }
}

/// The size the head announces; `None` for a chunked body.
pub(super) fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Refuses a body by its head alone.
pub(super) fn check_length(headers: &HeaderMap, limits: &Limits) -> Result<(), BodyError> {
    match declared_length(headers) {
        Some(length) if length > limits.max_body_bytes => {
            Err(BodyError::TooLarge { limit: limits.max_body_bytes })
        }
        _ => Ok(()),
    }
}

/// Refuses what would have to be decompressed: signatures are over the bytes as sent.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), BodyError> {
    let mut codings =
        headers.get_all(CONTENT_ENCODING).flat_map(|value| value.as_bytes().split(|b| *b == b','));
    if codings
        .all(|coding| coding.trim_ascii().is_empty() || coding.trim_ascii().eq_ignore_ascii_case(b"identity"))
    {
        Ok(())
    } else {
        Err(BodyError::Encoded)
    }
}

/// Reads the whole body.
pub(super) async fn read(
    payload: &mut Payload,
    headers: &HeaderMap,
    limits: &Limits,
    budget: &Arc<BodyBudget>,
) -> Result<BufferedBody, BodyError> {
    let expected = declared_length(headers).unwrap_or(0);
    tokio::time::timeout(limits.body_timeout, read_all(payload, expected, limits.max_body_bytes, budget))
        .await
        .unwrap_or(Err(BodyError::TooSlow { within: limits.body_timeout }))
}

/// Reads what is left of a body that nobody wants, if it is short and at hand. What is left after
/// that costs the sender its connection.
pub(super) async fn discard_rest(payload: &mut Payload, headers: &HeaderMap) {
    if declared_length(headers).is_some_and(|length| length > MAX_DISCARDED) {
        return;
    }
    let rest = async {
        let mut discarded = 0;
        while let Some(Ok(chunk)) = payload.next().await {
            discarded += chunk.len();
            if discarded > MAX_DISCARDED {
                break;
            }
        }
    };
    // Whether it ended in time shows when the response is sent.
    let _in_time = tokio::time::timeout(DISCARD_WITHIN, rest).await.is_ok();
}

async fn read_all(
    payload: &mut Payload,
    expected: usize,
    limit: usize,
    budget: &Arc<BodyBudget>,
) -> Result<BufferedBody, BodyError> {
    let mut reservation = budget.nothing();
    let Some(first) = next_chunk(payload, 0, limit, &mut reservation).await? else {
        return Ok(BufferedBody { bytes: Bytes::new(), reservation });
    };
    // Most bodies come in one piece: it is kept as it is.
    let Some(second) = next_chunk(payload, first.len(), limit, &mut reservation).await? else {
        return Ok(BufferedBody { bytes: first, reservation });
    };
    let mut whole =
        BytesMut::with_capacity(expected.min(MAX_TRUSTED_CAPACITY).max(first.len() + second.len()));
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&second);
    drop((first, second));
    while let Some(chunk) = next_chunk(payload, whole.len(), limit, &mut reservation).await? {
        whole.extend_from_slice(&chunk);
    }
    Ok(BufferedBody { bytes: whole.freeze(), reservation })
}

async fn next_chunk(
    payload: &mut Payload,
    read: usize,
    limit: usize,
    reservation: &mut Reservation,
) -> Result<Option<Bytes>, BodyError> {
    let Some(chunk) = payload.next().await else { return Ok(None) };
    let chunk = chunk.map_err(|_| BodyError::Broken)?;
    if chunk.len() > limit - read {
        return Err(BodyError::TooLarge { limit });
    }
    if !reservation.grow(chunk.len()) {
        return Err(BodyError::NoRoom);
    }
    Ok(Some(chunk))
}

/// The memory that bodies may hold together, counted in bytes that have arrived.
#[derive(Debug)]
pub(super) struct BodyBudget {
    held: AtomicUsize,
    capacity: usize,
}

impl BodyBudget {
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), capacity })
    }

    fn nothing(self: &Arc<Self>) -> Reservation {
        Reservation { budget: Arc::clone(self), bytes: 0 }
    }
}

/// A share of the budget, given back on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<BodyBudget>,
    bytes: usize,
}

impl Reservation {
    /// False: there is no room, and nothing was taken.
    fn grow(&mut self, bytes: usize) -> bool {
        let held = self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        if held + bytes > self.budget.capacity {
            self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use actix_web::FromRequest;
    use actix_web::http::header::HeaderValue;
    use actix_web::test::TestRequest;

    use super::*;

    fn headers(name: &actix_web::http::header::HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    async fn read_body(
        body: &'static [u8],
        limits: &Limits,
        budget: &Arc<BodyBudget>,
    ) -> Result<BufferedBody, BodyError> {
        let (request, mut payload) = TestRequest::post().set_payload(body).to_http_parts();
        let mut payload = Payload::from_request(&request, &mut payload).await.expect("a payload");
        read(&mut payload, request.headers(), limits, budget).await
    }

    #[actix_web::test]
    async fn a_body_of_exactly_the_limit_is_read_and_one_more_byte_is_not() {
        let limits = Limits { max_body_bytes: 4, ..Limits::default() };
        let budget = BodyBudget::new(100);
        let body = read_body(b"1234", &limits, &budget).await.expect("within the limit");
        assert_eq!(body.bytes, "1234");
        assert_eq!(read_body(b"12345", &limits, &budget).await.err(), Some(BodyError::TooLarge { limit: 4 }));
    }

    #[actix_web::test]
    async fn memory_is_given_back_when_a_body_is_dropped() {
        let limits = Limits::default();
        let budget = BodyBudget::new(6);
        let first = read_body(b"1234", &limits, &budget).await.expect("there is room");
        assert_eq!(read_body(b"567", &limits, &budget).await.err(), Some(BodyError::NoRoom));
        drop(first);
        assert!(read_body(b"567", &limits, &budget).await.is_ok());
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn only_the_identity_encoding_is_taken() {
        for accepted in [&[][..], &[""], &["identity"], &["Identity , identity"]] {
            assert_eq!(check_encoding(&headers(&CONTENT_ENCODING, accepted)), Ok(()), "{accepted:?}");
        }
        for refused in [&["gzip"][..], &["identity, br"], &["identity", "gzip"], &["x"]] {
            assert_eq!(
                check_encoding(&headers(&CONTENT_ENCODING, refused)),
                Err(BodyError::Encoded),
                "{refused:?}"
            );
        }
    }
}
