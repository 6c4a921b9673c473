//! Certificates that a delivery names by URL: fetched, checked, kept.
//!
//! The URL comes from whoever sent the request, so it leads nowhere but to PayPal's certificate
//! store, and the number of fetches is bounded: one at a time, a pause after each that failed, few
//! kept. What was fetched is trusted no more than its chain says. Only [`OverHttps`] touches the
//! network; everything else can be given certificates by hand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::config::PublicAlgorithm;
use super::public_key::PublicKey;

/// Most certificates kept: PayPal uses one or two at a time.
const MAX_CERTIFICATES: usize = 16;
/// Most certificates of a chain.
const MAX_CHAIN: usize = 8;
/// Largest answer read.
const MAX_PEM_BYTES: usize = 64 * 1024;
/// How long a fetch may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a fetch that failed, so long none is tried: an attacker must not make us hammer PayPal.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// Where PayPal keeps certificates, and whom they are made out to.
const STORES: [(&str, &str); 2] = [
    ("https://api.paypal.com/v1/notifications/certs/", "messageverificationcerts.paypal.com"),
    ("https://api.sandbox.paypal.com/v1/notifications/certs/", "messageverificationcerts.sandbox.paypal.com"),
];
/// Longest name of a certificate.
const MAX_NAME_BYTES: usize = 128;

/// An address in PayPal's certificate store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateUrl {
    url: String,
    subject: &'static str,
}

impl CertificateUrl {
    /// Accepts only what is exactly such an address: no other host, port, path, query or escape.
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        let store = STORES.iter().find_map(|(store, subject)| Some((url.strip_prefix(store)?, *subject)));
        let (name, subject) =
            store.ok_or("is named by a URL that does not lead to PayPal: this is no delivery of PayPal's")?;
        let is_name = !name.is_empty()
            && name.len() <= MAX_NAME_BYTES
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if !is_name {
            return Err("is named by a URL that is no certificate of PayPal's");
        }
        Ok(Self { url: url.to_owned(), subject })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// The host name the certificate must be made out to.
    pub(super) fn subject(&self) -> &'static str {
        self.subject
    }
}

/// Where certificates come from.
#[async_trait]
pub trait CertificateSource: Send + Sync {
    /// The certificate with its intermediates, as PEM.
    ///
    /// # Errors
    /// In words for the log.
    async fn fetch(&self, url: &CertificateUrl) -> Result<String, String>;
}

/// The real thing: from PayPal, over TLS.
#[derive(Debug)]
pub struct OverHttps;

#[async_trait]
impl CertificateSource for OverHttps {
    async fn fetch(&self, url: &CertificateUrl) -> Result<String, String> {
        // Fails only when there is one already, which serves as well.
        let _present = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .https_only(true)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("hooklatch/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.to_string())?;
        let response = client.get(url.as_str()).send().await.map_err(|error| error.to_string())?;
        let mut response = response.error_for_status().map_err(|error| error.to_string())?;
        let mut pem = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
            pem.extend_from_slice(&chunk);
            if pem.len() > MAX_PEM_BYTES {
                return Err(format!("the answer is longer than {MAX_PEM_BYTES} bytes"));
            }
        }
        String::from_utf8(pem).map_err(|_| "the answer is not PEM".to_owned())
    }
}

/// Certificates at hand, and where others come from. Clones share what they have.
#[derive(Clone)]
pub struct Certificates {
    source: Arc<dyn CertificateSource>,
    roots: Arc<[TrustAnchor<'static>]>,
    kept: Arc<Mutex<Kept>>,
    /// Held while one is fetched.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Kept {
    chains: BTreeMap<CertificateUrl, Arc<Chain>>,
    /// The last fetch failed then.
    failed_at: Option<DateTime<Utc>>,
}

impl Kept {
    /// Whether nothing is fetched now. A clock that was set back makes no pause longer.
    fn rests(&self, now: DateTime<Utc>) -> bool {
        self.failed_at.is_some_and(|at| at <= now && now < at + PAUSE)
    }
}

impl Certificates {
    /// From PayPal, trusted by the roots that browsers trust. One for the process.
    #[must_use]
    pub fn of_paypal() -> Self {
        static SHARED: LazyLock<Certificates> = LazyLock::new(|| {
            let anchors = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
            let anchors = anchors.filter_map(|root| Some(anchor_from_trusted_cert(root).ok()?.to_owned()));
            Certificates::new(Arc::new(OverHttps), anchors.collect())
        });
        SHARED.clone()
    }

    /// From a source of one's own, trusted by roots of one's own.
    ///
    /// # Errors
    /// When `root_pem` holds no certificate.
    pub fn with_root(source: Arc<dyn CertificateSource>, root_pem: &str) -> Result<Self, &'static str> {
        let chain = Chain::from_pem(root_pem)?;
        let anchors = chain.certificates.iter();
        let anchors: Option<Vec<_>> =
            anchors.map(|root| Some(anchor_from_trusted_cert(root).ok()?.to_owned())).collect();
        Ok(Self::new(source, anchors.ok_or("is no root")?))
    }

    fn new(source: Arc<dyn CertificateSource>, roots: Vec<TrustAnchor<'static>>) -> Self {
        Self { source, roots: roots.into(), kept: Arc::default(), turn: Arc::default() }
    }

    pub(super) fn roots(&self) -> &[TrustAnchor<'static>] {
        &self.roots
    }

    pub(super) fn cached(&self, url: &CertificateUrl) -> Option<Arc<Chain>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).chains.get(url).cloned()
    }

    /// Fetches a certificate, unless somebody else did meanwhile or the last fetch just failed.
    pub(super) async fn fetch(&self, url: &CertificateUrl, now: DateTime<Utc>) {
        let _turn = self.turn.lock().await;
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.chains.contains_key(url) || kept.rests(now) {
                return;
            }
        }
        let fetched = self.source.fetch(url).await;
        let chain = fetched.and_then(|pem| {
            let chain = Chain::from_pem(&pem).map_err(str::to_owned)?;
            chain.key_for(url.subject(), &self.roots, now).map_err(str::to_owned)?;
            Ok(chain)
        });
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match chain {
            Ok(chain) => {
                if kept.chains.len() >= MAX_CERTIFICATES {
                    kept.chains.pop_first();
                }
                kept.chains.insert(url.clone(), Arc::new(chain));
            }
            Err(problem) => {
                kept.failed_at = Some(now);
                tracing::warn!(certificate.url = url.as_str(), %problem, "a certificate could not be had");
            }
        }
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificates({} roots)", self.roots.len())
    }
}

/// A certificate, and those between it and a root.
#[derive(Debug)]
pub(super) struct Chain {
    certificates: Vec<CertificateDer<'static>>,
}

impl Chain {
    pub(super) fn from_pem(pem: &str) -> Result<Self, &'static str> {
        let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|_| "is not PEM")?;
        if certificates.is_empty() || certificates.len() > MAX_CHAIN {
            return Err("is not a chain of 1 to 8 certificates in PEM");
        }
        Ok(Self { certificates })
    }

    /// The key of the certificate, if a root vouches for it now and it is made out to `subject`.
    pub(super) fn key_for(
        &self,
        subject: &'static str,
        roots: &[TrustAnchor<'static>],
        now: DateTime<Utc>,
    ) -> Result<PublicKey, &'static str> {
        let (leaf, between) = self.certificates.split_first().ok_or("is missing")?;
        let leaf = EndEntityCert::try_from(leaf).map_err(|_| "cannot be read")?;
        let seconds = u64::try_from(now.timestamp()).map_err(|_| "is not valid at this time")?;
        leaf.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            roots,
            between,
            UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
            KeyUsage::server_auth(),
            None,
            None,
        )
        .map_err(|error| match error {
            webpki::Error::CertExpired { .. } => "has expired",
            webpki::Error::CertNotValidYet { .. } => "is not valid yet",
            _ => "has no chain to a trusted root",
        })?;
        let name = ServerName::try_from(subject).map_err(|_| "has a name that cannot be checked")?;
        leaf.verify_is_valid_for_subject_name(&name).map_err(|_| "is not made out to PayPal")?;
        PublicKey::from_spki(&leaf.subject_public_key_info(), PublicAlgorithm::Rsa)
            .map_err(|_| "holds no RSA key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_makes_no_pause_longer() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(1);
        let kept = Kept { failed_at: Some(now), ..Kept::default() };
        assert!(kept.rests(now) && kept.rests(now + PAUSE - TimeDelta::seconds(1)));
        assert!(!kept.rests(now + PAUSE));
        assert!(!kept.rests(now - TimeDelta::hours(1)));
    }
}
