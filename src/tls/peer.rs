//! TLS where we are the client: whose certificates we believe, and which of ours we show.
//!
//! Without files of our own, the machine's authorities judge, as they do for everybody else on it. What is
//! wrong is said with the file and the way out, and never with anything of a key.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::TlsError;
use super::material::{certificates, read, roots, unusable};

/// PEM files for connections that we open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFiles {
    /// The authorities that may have signed the other side's certificate. Unset: the machine's.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, for who asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What the files hold, ready for connections.
#[derive(Clone)]
pub struct PeerTls(Arc<ClientConfig>);

impl PeerTls {
    /// Reads the files and checks them against each other.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(files: &PeerFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Machine)?;
        let builder = match &files.ca {
            Some(path) => builder.with_root_certificates(roots(path, &read(path)?)?),
            None => builder.with_platform_verifier().map_err(TlsError::Machine)?,
        };
        let config = match &files.identity {
            Some((certificate, key)) => {
                let chain = certificates(certificate, &read(certificate)?)?;
                let private = private_key(key)?;
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| misfit(certificate, key, &error))?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self(Arc::new(config)))
    }

    /// As the machine's settings say.
    ///
    /// # Errors
    /// When the machine's authorities cannot be read.
    pub fn of_the_machine() -> Result<Self, TlsError> {
        Self::load(&PeerFiles::default())
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.0.clone()
    }
}

impl fmt::Debug for PeerTls {
    /// Keys never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerTls")
    }
}

/// Why a connection's certificates were not accepted, and the way out. `None`: that was not the reason.
#[must_use]
pub fn certificate_problem(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = as_rustls(error) {
            return in_words(found);
        }
        next = error.source();
    }
    None
}

fn as_rustls<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(error);
    }
    // Its `source` is the source of what it holds.
    let held = error.downcast_ref::<io::Error>()?.get_ref()?;
    as_rustls(held as &(dyn Error + 'static))
}

fn in_words(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::InvalidCertificate(reason) => Some(match reason {
            // The latter: an authority of the same name is trusted.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is signed by an authority that is not trusted here; name that authority in tls.ca, or add it to the machine's".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate is for another host: {error}; write the name it is for in the URL")
            }
            _ => format!("its certificate is not accepted: {error}; it has to be renewed there"),
        }),
        rustls::Error::AlertReceived(alert) => Some(format!(
            "it ended the handshake ({alert:?}); does it want a certificate of ours (tls.certificate, tls.key)?"
        )),
        _ => None,
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| TlsError::NoKey(path.to_owned()))
}

fn misfit(certificate: &Path, key: &Path, error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        rustls::Error::InvalidCertificate(_) => unusable(certificate, &error.to_string()),
        // Of a kind that nobody signs with, or broken.
        _ => TlsError::NoKey(key.to_owned()),
    }
}
