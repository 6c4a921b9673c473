//! The certificate that a client showed, as far as a source may ask about it.
//!
//! It was verified during the handshake: a certificate authority of ours has signed it and it is
//! valid now. Here it is only read.

use std::fmt;
use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Longest text that is kept of a certificate; what is longer matches nothing.
const MAX_TEXT_BYTES: usize = 1024;
/// Most names that are kept of a certificate.
const MAX_NAMES: usize = 256;

/// A client's certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    subject: Option<String>,
    names: Vec<String>,
    fingerprint: [u8; 32],
}

impl ClientCertificate {
    /// Reads a certificate. What cannot be read is absent; the fingerprint is always there.
    #[must_use]
    pub fn read(certificate: &CertificateDer<'_>) -> Self {
        let fingerprint = Sha256::digest(certificate).into();
        let Ok(read) = CertificateInner::<Raw>::from_der(certificate) else {
            return Self { subject: None, names: Vec::new(), fingerprint };
        };
        let certificate = read.tbs_certificate();
        let subject = Some(certificate.subject().to_string()).filter(|subject| is_plain(subject));
        let alternatives = certificate.get_extension::<SubjectAltName>().ok().flatten();
        let names = alternatives.iter().flat_map(|(_, names)| &names.0).filter_map(name);
        Self { subject, names: names.filter(|name| is_plain(name)).take(MAX_NAMES).collect(), fingerprint }
    }

    /// The subject as RFC 4514 writes it: `CN=relay,O=Example`.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// The alternative names: DNS names in lower case, addresses, e-mail addresses and URIs.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// SHA-256 of the certificate.
    #[must_use]
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientCertificate({})", hex::encode(self.fingerprint))
    }
}

fn name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        GeneralName::Rfc822Name(name) => Some(name.as_str().to_owned()),
        GeneralName::UniformResourceIdentifier(name) => Some(name.as_str().to_owned()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
            let v6 = || Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?));
            v4().or_else(v6).map(|address| address.to_string())
        }
        _ => None,
    }
}

/// Whether a text may be compared and shown: no control characters, not endless.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TEXT_BYTES && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(edit: impl FnOnce(&mut CertificateParams)) -> ClientCertificate {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        edit(&mut params);
        let key = KeyPair::generate().unwrap();
        ClientCertificate::read(params.self_signed(&key).unwrap().der())
    }

    #[test]
    fn subject_names_and_fingerprint_are_read() {
        let read = certificate(|params| {
            params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
            params.distinguished_name.push(DnType::CommonName, "relay");
            params.subject_alt_names = vec![
                SanType::DnsName("Relay.Example.com".try_into().unwrap()),
                SanType::IpAddress("2001:db8::1".parse().unwrap()),
                SanType::URI("spiffe://example/relay".try_into().unwrap()),
            ];
        });
        assert_eq!(read.subject(), Some("CN=relay,O=Example\\, Inc."));
        assert_eq!(read.names(), ["relay.example.com", "2001:db8::1", "spiffe://example/relay"]);
        assert_eq!(format!("{read:?}").len(), "ClientCertificate()".len() + 64);
    }

    #[test]
    fn control_characters_of_a_subject_stand_escaped() {
        let read = certificate(|params| params.distinguished_name.push(DnType::CommonName, "a\nb\0"));
        // As RFC 4514 section 2.4 writes them.
        assert_eq!(read.subject(), Some("CN=a\\0ab\\00"));
    }

    #[test]
    fn what_is_no_certificate_has_a_fingerprint_only() {
        let read = ClientCertificate::read(&CertificateDer::from(vec![0x30, 0x01, 0xff]));
        assert_eq!((read.subject(), read.names().len()), (None, 0));
    }
}
