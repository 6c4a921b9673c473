//! A listener's TLS, whose certificate and authorities can be exchanged while it is open.
//!
//! Connections that are open go on as they began; handshakes from then on meet the new files. Files
//! that cannot be used change nothing. Where clients show certificates, sessions are not resumed:
//! a resumed one would not be verified against the authorities of today.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use chrono::{DateTime, Utc};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use super::material::{Freshness, Material, TlsError, TlsFiles};

/// Whether clients must show a certificate, where authorities for them are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They may: the source asks for it.
    Offered,
    /// Nobody gets in without.
    Demanded,
}

/// The TLS of one listener.
pub struct TlsListener {
    files: TlsFiles,
    clients: ClientCertificates,
    current: RwLock<Current>,
}

#[derive(Clone)]
struct Current {
    material: Arc<Material>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl TlsListener {
    /// Reads the files.
    ///
    /// # Errors
    /// When they cannot be used. An expired certificate can.
    pub fn open(files: TlsFiles, clients: ClientCertificates) -> Result<Arc<Self>, TlsError> {
        let current = Current::load(&files, clients)?;
        Ok(Arc::new(Self { files, clients, current: RwLock::new(current) }))
    }

    /// Reads the files again and goes on with what they hold. Tells whether that is something else.
    ///
    /// # Errors
    /// When they cannot be used, or the certificate is not valid while ours is; then nothing changes.
    pub fn reload(&self, now: DateTime<Utc>) -> Result<bool, String> {
        let next = Current::load(&self.files, self.clients).map_err(|error| with_source(&error))?;
        let freshness = next.material.freshness(now);
        if !freshness.is_valid() && self.freshness(now).is_valid() {
            return Err(format!("{}: {freshness}", self.files.certificate.display()));
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let has_changed = !next.material.is_same_as(&current.material);
        *current = next;
        Ok(has_changed)
    }

    /// How the certificate in use stands at this time.
    #[must_use]
    pub fn freshness(&self, now: DateTime<Utc>) -> Freshness {
        self.current().material.freshness(now)
    }

    /// When the certificate in use ends.
    #[must_use]
    pub fn not_after(&self) -> DateTime<Utc> {
        self.current().material.not_after()
    }

    /// The files it was made from.
    #[must_use]
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// What rustls needs to know; follows every later exchange.
    ///
    /// # Errors
    /// Never with the provider that is built in.
    pub fn server_config(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let asks = self.files.client_ca.is_some();
        let builder = if asks {
            builder.with_client_cert_verifier(Arc::new(Clients(self.clone())))
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_cert_resolver(Arc::new(Certificate(self.clone())));
        if asks {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(config)
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for TlsListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsListener").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Current {
    fn load(files: &TlsFiles, clients: ClientCertificates) -> Result<Self, TlsError> {
        let material = Material::load(files)?;
        let verifier =
            match (&material.client_roots, &files.client_ca) {
                (Some(roots), Some(path)) => {
                    let provider = Arc::new(rustls::crypto::ring::default_provider());
                    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider);
                    let builder = match clients {
                        ClientCertificates::Offered => builder.allow_unauthenticated(),
                        ClientCertificates::Demanded => builder,
                    };
                    Some(builder.build().map_err(|error| TlsError::Unusable {
                        path: path.clone(),
                        problem: error.to_string(),
                    })?)
                }
                _ => None,
            };
        Ok(Self { material: Arc::new(material), verifier })
    }
}

/// Shows the certificate of the moment.
#[derive(Debug)]
struct Certificate(Arc<TlsListener>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().material.key.clone())
    }
}

/// Verifies clients against the authorities of the moment.
#[derive(Debug)]
struct Clients(Arc<TlsListener>);

impl Clients {
    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let nobody = || rustls::Error::General("no client authorities are configured".to_owned());
        self.0.current().verifier.ok_or_else(nobody)
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.0.clients == ClientCertificates::Demanded
    }

    /// None: the authorities may be exchanged, and clients with one certificate need no hint.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verifier()?.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier()?.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier()?.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().map(|verifier| verifier.supported_verify_schemes()).unwrap_or_default()
    }
}

/// An error and why, in one line.
fn with_source(error: &TlsError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
