//! The moment a request arrived, and the request as plain values.
//!
//! The only place that reads actix requests for the core.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use actix_web::HttpRequest;
use actix_web::http::header::HeaderMap;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::clock::{self, Clock};
use crate::event::RawRequest;
use crate::raw_headers::RawHeaders;
use crate::tls::ClientCertificate;

/// When and from where a request came, and the name it has from now on.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: Uuid,
    pub(crate) at: DateTime<Utc>,
    pub(super) started: Instant,
    pub(super) peer: Option<Peer>,
}

impl Arrival {
    pub(super) fn now(request: &HttpRequest, clock: &Clock) -> Self {
        let known = request.conn_data::<Peer>().cloned();
        Self::from_peer(known.or_else(|| request.peer_addr().map(|it| Peer::at(it.ip()))), clock)
    }

    /// Of a delivery that came in another way than by a request.
    pub(crate) fn from_peer(peer: Option<Peer>, clock: &Clock) -> Self {
        Self { id: clock::new_id(), at: clock.now(), started: Instant::now(), peer }
    }

    pub(super) fn peer_address(&self) -> Option<IpAddr> {
        self.peer.as_ref()?.address
    }
}

/// The other end of the connection; behind a proxy, that is the proxy. Written down once a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    address: Option<IpAddr>,
    /// As the ledger names it.
    pub(super) name: Arc<str>,
}

impl Peer {
    pub(super) fn at(address: IpAddr) -> Self {
        Self { address: Some(address), name: address.to_string().into() }
    }

    /// One that is not known by an address.
    pub(crate) fn named(name: &str) -> Self {
        Self { address: None, name: name.into() }
    }
}

/// The certificate that the client showed in the handshake.
pub(super) fn client_certificate(request: &HttpRequest) -> Option<Arc<ClientCertificate>> {
    request.conn_data::<Arc<ClientCertificate>>().cloned()
}

/// The request as the core sees it.
pub(super) fn raw_request(request: &HttpRequest, body: Bytes) -> RawRequest {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    RawRequest { target: Arc::from(target), headers: raw_headers(request.headers()), body }
}

fn raw_headers(headers: &HeaderMap) -> RawHeaders {
    let (mut names, mut values) = (0, 0);
    for (name, value) in headers {
        names += name.as_str().len();
        values += value.len();
    }
    let mut raw = RawHeaders::with_capacity(headers.len(), names, values);
    for (name, value) in headers {
        raw.push(name, value);
    }
    raw
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_raw_request_keeps_target_and_header_bytes() {
        let request = TestRequest::post()
            .uri("/hooks/shop?x=%31&y")
            .insert_header(("X-One", "1"))
            .insert_header((
                HeaderName::from_static("x-bytes"),
                HeaderValue::from_bytes(b"\xE9\xFF").expect("obs-text"),
            ))
            .append_header(("x-two", "a"))
            .append_header(("x-two", "b"))
            .to_http_request();
        let raw = raw_request(&request, Bytes::from_static(b"{}"));
        assert_eq!(&*raw.target, "/hooks/shop?x=%31&y");
        assert_eq!(raw.header_values("x-one").collect::<Vec<_>>(), [b"1"]);
        assert_eq!(raw.header_values("x-bytes").collect::<Vec<_>>(), [b"\xE9\xFF"]);
        assert_eq!(raw.header_values("x-two").collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(raw.body, "{}");
    }
}
