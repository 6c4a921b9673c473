//! How each delivery of a run is made: where it goes, how it is signed, what is put into it.

use chrono::{DateTime, Utc};

use crate::cli::Failure;
use crate::config::{Config, Environment, SecretRef};
use crate::envelope::Locator;
use crate::signature::{Verifier, VerifyConfig};

use super::{Send, body};

/// Deliveries are POSTed.
pub(super) const METHOD: &str = "POST";
/// Stands for the number of the delivery.
const NUMBER: &str = "{i}";
/// The header a sender names a key in.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// How to make deliveries.
pub(super) struct Recipe {
    url: reqwest::Url,
    verifier: Verifier,
    /// Where the source looks for the event id; empty without a source.
    id_places: Vec<Locator>,
    event_id: Option<String>,
    headers: Vec<(String, String)>,
}

/// A delivery that is ready to be posted.
pub(super) struct Request {
    pub(super) url: reqwest::Url,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Recipe {
    pub(super) fn new(send: &Send) -> Result<Self, Failure> {
        let (verifier, id_places, usual_url) = match (&send.scheme, &send.source) {
            (Some(scheme), _) => (ad_hoc(scheme, send.secret.as_deref())?, Vec::new(), None),
            (None, name) => configured(&send.file.load()?, name.as_deref())?,
        };
        let url = send.url.clone().or(usual_url).unwrap_or_default();
        let url = reqwest::Url::parse(&url)
            .map_err(|error| Failure::usage(format!("--url {url:?} is no URL: {error}")))?;
        let mut headers = Vec::new();
        for header in &send.header {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| Failure::usage(format!("--header {header:?}: write NAME:VALUE")))?;
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        if let Some(key) = &send.idempotency_key {
            headers.push((IDEMPOTENCY_KEY.to_owned(), key.clone()));
        }
        Ok(Self { url, verifier, id_places, event_id: send.event_id.clone(), headers })
    }

    /// The delivery with this number, signed at this time.
    pub(super) fn make(&self, number: u32, body: &[u8], now: DateTime<Utc>) -> Result<Request, Failure> {
        let mut body = body.to_vec();
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let fill = |text: &str| text.replace(NUMBER, &number.to_string());
        let event_id = self.event_id.as_deref().map(fill);
        if let Some(id) = &event_id {
            match self.id_places.first().map(Locator::first) {
                Some(Locator::Body(pointer)) => body = body::with_id(&body, &pointer.to_string(), id)?,
                Some(Locator::Header(name)) => headers.push((name.to_string(), id.clone())),
                Some(Locator::Digest | Locator::Delivery | Locator::FirstOf(_)) | None => {}
            }
        }
        let signing_id = event_id.unwrap_or_else(|| crate::clock::new_id().to_string());
        let target = self
            .url
            .query()
            .map_or_else(|| self.url.path().to_owned(), |query| format!("{}?{query}", self.url.path()));
        let signed = self
            .verifier
            .sign_request(METHOD, &target, &body, &signing_id, now)
            .map_err(|error| Failure::because("cannot sign", &error))?;
        let mut url = self.url.clone();
        url.set_query(signed.target.split_once('?').map(|(_, query)| query));
        for (name, value) in signed.headers {
            headers.retain(|(known, _)| *known != name);
            headers.push((name, value));
        }
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone(), fill(value))));
        Ok(Request { url, headers, body: signed.body })
    }
}

/// A verifier without a configuration.
fn ad_hoc(scheme: &str, secret: Option<&str>) -> Result<Verifier, Failure> {
    let environment = Environment::of_process();
    let secrets = secret
        .map(|secret| SecretRef::parse(secret).resolve(&environment))
        .transpose()
        .map_err(|message| Failure::usage(format!("--secret: {message}")))?;
    let config = VerifyConfig { scheme: scheme.to_owned(), ..VerifyConfig::default() };
    Verifier::new(&config, secrets.into_iter().collect())
        .map_err(|error| Failure::usage(format!("--scheme {scheme}: {error}")))
}

/// A source of the configuration, and where it listens.
fn configured(
    config: &Config,
    name: Option<&str>,
) -> Result<(Verifier, Vec<Locator>, Option<String>), Failure> {
    let names = || config.sources.iter().map(|source| &*source.section.name).collect::<Vec<_>>().join(", ");
    let found = match (name, config.sources.as_slice()) {
        (Some(name), sources) => sources
            .iter()
            .find(|source| source.section.name == name)
            .ok_or_else(|| Failure::usage(format!("there is no source {name:?}; there are: {}", names())))?,
        (None, [only]) => only,
        (None, _) => {
            return Err(Failure::usage(format!(
                "say how to sign: --source NAME (there are: {}), or --scheme with --secret and --url",
                names()
            )));
        }
    };
    let mut listen = config.http.listen;
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let url = format!("http://{listen}/hooks/{}", found.section.name);
    let source = &found.source;
    Ok((source.verifier.clone(), source.envelope.event_id.as_slice().to_vec(), Some(url)))
}
