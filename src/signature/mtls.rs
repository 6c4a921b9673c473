//! Senders that prove themselves in the TLS handshake, by a certificate.
//!
//! The listener has verified that one of its authorities signed the certificate and that the client
//! holds its key; here only whether this one may send to this source. Nothing of the request is
//! signed: what is proven is who is at the other end of the connection.

use super::Verified;
use super::config::{VerifyConfig, VerifyConfigError};
use super::knob_check::bad;
use super::refusal::Refusal;
use crate::tls::ClientCertificate;

pub(super) const MTLS: &str = "mtls";

/// Most entries of one list: each is compared with each delivery.
const MAX_ENTRIES: usize = 256;
const FINGERPRINT_BYTES: usize = 32;

/// Whose certificates may send. All lists empty: everyone's whom the authorities vouch for.
#[derive(Clone)]
pub(super) struct ClientScheme {
    subjects: Vec<String>,
    names: Vec<String>,
    fingerprints: Vec<[u8; FINGERPRINT_BYTES]>,
}

impl ClientScheme {
    pub(super) fn new(config: &VerifyConfig) -> Result<Self, VerifyConfigError> {
        let texts = |key, list: &[String]| {
            if list.len() > MAX_ENTRIES {
                return Err(bad(
                    key,
                    format!("has more than {MAX_ENTRIES} entries; use an authority of its own"),
                ));
            }
            match list.iter().find(|text| text.is_empty() || text.trim() != *text) {
                Some(text) => Err(bad(key, format!("has {text:?}, which is empty or has blanks around it"))),
                None => Ok(list.to_vec()),
            }
        };
        let names = texts("allow_names", &config.allow_names)?;
        Ok(Self {
            subjects: texts("allow_subjects", &config.allow_subjects)?,
            names: names.into_iter().map(|name| plain_name(&name)).collect(),
            fingerprints: texts("allow_fingerprints", &config.allow_fingerprints)?
                .iter()
                .map(|text| fingerprint(text))
                .collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn verify(&self, certificate: Option<&ClientCertificate>) -> Result<Verified, Refusal> {
        let certificate = certificate.ok_or(Refusal::NoClientCertificate)?;
        if self.admits(certificate) {
            return Ok(Verified { secret_index: None, timestamp: None });
        }
        Err(Refusal::WrongClientCertificate {
            subject: certificate.subject().map(str::to_owned),
            names: certificate.names().to_vec(),
            fingerprint: hex::encode(certificate.fingerprint()),
        })
    }

    fn admits(&self, certificate: &ClientCertificate) -> bool {
        if self.subjects.is_empty() && self.names.is_empty() && self.fingerprints.is_empty() {
            return true;
        }
        certificate.subject().is_some_and(|subject| self.subjects.iter().any(|known| known == subject))
            || certificate.names().iter().any(|name| self.names.contains(name))
            || self.fingerprints.contains(certificate.fingerprint())
    }
}

/// DNS names count in any case; what else a certificate may hold is compared as it is.
fn plain_name(name: &str) -> String {
    if let Ok(address) = name.parse::<std::net::IpAddr>() {
        return address.to_string();
    }
    if name.contains(['@', ':', '/']) { name.to_owned() } else { name.to_ascii_lowercase() }
}

fn fingerprint(text: &str) -> Result<[u8; FINGERPRINT_BYTES], VerifyConfigError> {
    let digits = text.replace(':', "");
    let mut bytes = [0; FINGERPRINT_BYTES];
    hex::decode_to_slice(&digits, &mut bytes).map_err(|_| {
        bad(
            "allow_fingerprints",
            format!(
                "has {text:?}, which is no SHA-256; write what `openssl x509 -noout -fingerprint -sha256` says"
            ),
        )
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate() -> ClientCertificate {
        let mut params = CertificateParams::new(vec!["Relay.example.com".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "relay");
        params.subject_alt_names.push(SanType::IpAddress("192.0.2.7".parse().unwrap()));
        ClientCertificate::read(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    fn scheme(subjects: &[&str], names: &[&str], fingerprints: &[&str]) -> ClientScheme {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let config = VerifyConfig {
            allow_subjects: texts(subjects),
            allow_names: texts(names),
            allow_fingerprints: texts(fingerprints),
            ..VerifyConfig::default()
        };
        ClientScheme::new(&config).unwrap()
    }

    #[test]
    fn one_entry_of_any_list_is_enough() {
        let certificate = certificate();
        let plain = hex::encode(certificate.fingerprint());
        let with_colons: Vec<String> =
            certificate.fingerprint().iter().map(|byte| format!("{byte:02X}")).collect();
        let other = "00".repeat(FINGERPRINT_BYTES);
        for (subjects, names, fingerprints, may) in [
            (&[][..], &[][..], &[][..], true),
            (&["CN=relay"], &[], &[], true),
            (&["CN=other", "CN=relay"], &[], &[], true),
            (&["CN=other"], &["RELAY.example.COM"], &[], true),
            (&["CN=other"], &["192.0.2.7"], &[], true),
            (&["CN=other"], &[], &[&*plain], true),
            (&[], &[], &[&*with_colons.join(":")], true),
            (&["CN=Relay"], &[], &[], false),
            (&["relay"], &["example.com"], &[&*other], false),
            (&[], &["*.example.com"], &[], false),
        ] {
            let verified = scheme(subjects, names, fingerprints).verify(Some(&certificate));
            assert_eq!(verified.is_ok(), may, "{subjects:?} {names:?} {fingerprints:?}");
        }
    }

    #[test]
    fn no_certificate_is_refused_and_a_strange_one_is_described() {
        assert_eq!(scheme(&[], &[], &[]).verify(None), Err(Refusal::NoClientCertificate));
        let refusal = scheme(&["CN=other"], &[], &[]).verify(Some(&certificate())).unwrap_err().to_string();
        for part in ["subject CN=relay", "relay.example.com", "192.0.2.7", "SHA-256 "] {
            assert!(refusal.contains(part), "{refusal}");
        }
    }

    #[test]
    fn what_is_no_fingerprint_is_refused() {
        for text in ["", " ", "abc", "zz", &"0".repeat(63), &"0".repeat(65)] {
            let config =
                VerifyConfig { allow_fingerprints: vec![(*text).to_owned()], ..VerifyConfig::default() };
            assert!(ClientScheme::new(&config).is_err(), "{text:?}");
        }
    }
}
