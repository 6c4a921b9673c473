//! The files of a listener: read, checked against each other, judged by their dates.
//!
//! What is wrong is said with the file and the way out, and never with anything of a key.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;

/// Largest file read: a bundle of every public authority is a quarter of it.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Most certificates between ours and a root.
const MAX_CHAIN: usize = 10;
/// A certificate that ends sooner than this should have been renewed: the usual ones are renewed
/// with a month to go.
const SOON: TimeDelta = TimeDelta::days(14);

/// Where a listener's certificate, its key and the authorities of its clients are: PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those between it and a root.
    pub certificate: PathBuf,
    /// The private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// The authorities that sign clients' certificates. Unset: clients are not asked for one.
    pub client_ca: Option<PathBuf>,
}

/// What is wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("{} is larger than {MAX_FILE_BYTES} bytes, so it is no certificate and no key", .0.display())]
    TooLarge(PathBuf),
    #[error("{} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} is no PEM that can be read", .0.display())]
    NotPem(PathBuf),
    #[error("{} holds {found} certificates; write ours and those between it and a root, at most {MAX_CHAIN}", path.display())]
    LongChain { path: PathBuf, found: usize },
    #[error("{} holds no unencrypted private key in PEM (PKCS#8, PKCS#1 or SEC1)", .0.display())]
    NoKey(PathBuf),
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("the certificate in {} cannot be used: {problem}", path.display())]
    Unusable { path: PathBuf, problem: String },
    #[error("TLS cannot be set up with what this machine trusts")]
    Machine(#[source] rustls::Error),
}

/// What the files hold.
pub struct Material {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) client_roots: Option<Arc<RootCertStore>>,
    not_before: DateTime<Utc>,
    not_after: DateTime<Utc>,
    /// Of all that was read.
    print: [u8; 32],
}

/// How a certificate stands in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    Good { until: DateTime<Utc> },
    EndsSoon { until: DateTime<Utc> },
    Ended { at: DateTime<Utc> },
    NotYet { from: DateTime<Utc> },
}

impl Material {
    /// Reads the files and checks them against each other, but for their dates.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let mut print = Sha256::new();
        let mut read = |path: &Path| -> Result<Vec<u8>, TlsError> {
            let bytes = read(path)?;
            print.update(&bytes);
            Ok(bytes)
        };
        let chain = certificates(&files.certificate, &read(&files.certificate)?)?;
        if chain.len() > MAX_CHAIN {
            return Err(TlsError::LongChain { path: files.certificate.clone(), found: chain.len() });
        }
        let (not_before, not_after) = chain
            .first()
            .and_then(validity)
            .ok_or_else(|| unusable(&files.certificate, "its dates cannot be read"))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
            .map_err(|_| TlsError::NoKey(files.key.clone()))?;
        let key = certified(files, chain, key)?;
        let client_roots = match &files.client_ca {
            Some(path) => Some(Arc::new(roots(path, &read(path)?)?)),
            None => None,
        };
        Ok(Self { key: Arc::new(key), client_roots, not_before, not_after, print: print.finalize().into() })
    }

    /// How our certificate stands at this time.
    #[must_use]
    pub fn freshness(&self, now: DateTime<Utc>) -> Freshness {
        if now < self.not_before {
            Freshness::NotYet { from: self.not_before }
        } else if now > self.not_after {
            Freshness::Ended { at: self.not_after }
        } else if now + SOON > self.not_after {
            Freshness::EndsSoon { until: self.not_after }
        } else {
            Freshness::Good { until: self.not_after }
        }
    }

    /// Whether the files held the same.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.print == other.print
    }

    /// When our certificate ends.
    #[must_use]
    pub fn not_after(&self) -> DateTime<Utc> {
        self.not_after
    }
}

impl fmt::Debug for Material {
    /// Keys never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Material(until {})", self.not_after)
    }
}

impl Freshness {
    /// Whether clients can trust the certificate now.
    #[must_use]
    pub fn is_valid(self) -> bool {
        matches!(self, Self::Good { .. } | Self::EndsSoon { .. })
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good { until } => write!(f, "the certificate is valid until {until}"),
            Self::EndsSoon { until } => write!(f, "the certificate ends soon, at {until}; renew it"),
            Self::Ended { at } => write!(f, "the certificate expired at {at}; renew it"),
            Self::NotYet { from } => {
                write!(f, "the certificate is not valid before {from}; see to the clock, or wait")
            }
        }
    }
}

fn certified(
    files: &TlsFiles,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, TlsError> {
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { certificate: files.certificate.clone(), key: files.key.clone() }
        }
        rustls::Error::InvalidCertificate(_) => unusable(&files.certificate, &error.to_string()),
        // Of a kind that nobody signs with, or broken.
        _ => TlsError::NoKey(files.key.clone()),
    })
}

pub(super) fn roots(path: &Path, text: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, text)? {
        roots.add(certificate).map_err(|error| unusable(path, &error.to_string()))?;
    }
    Ok(roots)
}

pub(super) fn unusable(path: &Path, problem: &str) -> TlsError {
    TlsError::Unusable { path: path.to_owned(), problem: problem.to_owned() }
}

pub(super) fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, pem::Error>>();
    let found = found.map_err(|_| TlsError::NotPem(path.to_owned()))?;
    if found.is_empty() { Err(TlsError::NoCertificate(path.to_owned())) } else { Ok(found) }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError::Unreadable(path.to_owned(), error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(TlsError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}

fn validity(certificate: &CertificateDer<'_>) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let read = CertificateInner::<Raw>::from_der(certificate).ok()?;
    let validity = read.tbs_certificate().validity();
    let at = |since: Duration| DateTime::from_timestamp(i64::try_from(since.as_secs()).ok()?, 0);
    Some((at(validity.not_before.to_unix_duration())?, at(validity.not_after.to_unix_duration())?))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    struct Fixture {
        directory: tempfile::TempDir,
        files: TlsFiles,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let files = TlsFiles {
                certificate: directory.path().join("tls.crt"),
                key: directory.path().join("tls.key"),
                client_ca: None,
            };
            let fixture = Self { directory, files };
            let key = KeyPair::generate().unwrap();
            fixture.write(&params().self_signed(&key).unwrap().pem(), &key.serialize_pem());
            fixture
        }

        fn write(&self, certificate: &str, key: &str) {
            std::fs::write(&self.files.certificate, certificate).unwrap();
            std::fs::write(&self.files.key, key).unwrap();
        }

        fn problem(&self) -> String {
            Material::load(&self.files).expect_err("something is wrong").to_string()
        }
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 7, 1);
        params
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_certificate_is_judged_by_its_dates() {
        let material = Material::load(&Fixture::new().files).unwrap();
        let until = at("2026-07-01T00:00:00Z");
        for (now, expected) in [
            ("2025-12-31T23:59:59Z", Freshness::NotYet { from: at("2026-01-01T00:00:00Z") }),
            ("2026-01-01T00:00:00Z", Freshness::Good { until }),
            ("2026-06-17T00:00:00Z", Freshness::Good { until }),
            ("2026-06-17T00:00:01Z", Freshness::EndsSoon { until }),
            ("2026-07-01T00:00:00Z", Freshness::EndsSoon { until }),
            ("2026-07-01T00:00:01Z", Freshness::Ended { at: until }),
        ] {
            assert_eq!(material.freshness(at(now)), expected, "{now}");
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let fixture = Fixture::new();
        std::fs::write(&fixture.files.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert!(fixture.problem().contains("does not belong to"), "{}", fixture.problem());
    }

    #[test]
    fn files_that_are_missing_or_something_else_are_named() {
        let fixture = Fixture::new();
        let good = std::fs::read_to_string(&fixture.files.certificate).unwrap();
        let key = std::fs::read_to_string(&fixture.files.key).unwrap();
        for (certificate, key, problem) in [
            ("", &*key, "holds no certificate"),
            ("-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n", &key, "no PEM"),
            (&good, "", "no unencrypted private key"),
            (&good, &good, "no unencrypted private key"),
            (&*good.repeat(11), &key, "holds 11 certificates"),
        ] {
            fixture.write(certificate, key);
            assert!(fixture.problem().contains(problem), "{problem}: {}", fixture.problem());
        }
        std::fs::remove_file(&fixture.files.certificate).unwrap();
        assert!(fixture.problem().contains("tls.crt cannot be read"), "{}", fixture.problem());
    }

    #[test]
    fn the_authorities_of_clients_must_be_certificates() {
        let mut fixture = Fixture::new();
        fixture.files.client_ca = Some(fixture.directory.path().join("clients.pem"));
        assert!(fixture.problem().contains("clients.pem cannot be read"), "{}", fixture.problem());
        std::fs::copy(&fixture.files.key, fixture.directory.path().join("clients.pem")).unwrap();
        assert!(fixture.problem().contains("holds no certificate"), "{}", fixture.problem());
    }

    #[test]
    fn a_key_is_not_shown() {
        let material = Material::load(&Fixture::new().files).unwrap();
        assert_eq!(format!("{material:?}"), "Material(until 2026-07-01 00:00:00 UTC)");
    }
}
