//! Certificates made for a test: an authority, and what it signs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority of its own.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct Identity {
    pub(crate) certificate: Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = params("authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signs itself");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names that is valid for long.
    pub(crate) fn issue(&self, common_name: &str, names: &[&str]) -> Identity {
        self.issue_until(common_name, names, 2999)
    }

    /// A certificate that ends with this year's beginning.
    pub(crate) fn issue_until(&self, common_name: &str, names: &[&str], year: i32) -> Identity {
        let mut params = params(common_name, names);
        params.not_after = date_time_ymd(year, 1, 1);
        self.sign(&params)
    }

    /// A certificate that ends a week from now.
    pub(crate) fn issue_for_a_week(&self, common_name: &str, names: &[&str]) -> Identity {
        const WEEK: i64 = 7 * 24 * 60 * 60;
        let seconds = u64::try_from(super::app::unix_now() + WEEK).expect("after 1970");
        let mut params = params(common_name, names);
        params.not_after = date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds);
        self.sign(&params)
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs");
        Identity { certificate, key }
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key`, and returns where.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let files = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
        std::fs::write(&files.0, self.certificate.pem()).expect("a certificate can be written");
        std::fs::write(&files.1, self.key.serialize_pem()).expect("a key can be written");
        files
    }

    pub(crate) fn der(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).expect("PKCS#8");
        (self.certificate.der().clone(), key)
    }
}

fn params(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("valid names");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2999, 1, 1);
    params
}
