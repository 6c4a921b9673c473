//! `tls` of a destination or of a queue: whose certificates are believed there, and which of ours is
//! shown. The files are read with the configuration, as those of secrets are.

use std::path::PathBuf;

use serde::Deserialize;

use super::report::Report;
use super::tls::plain;
use crate::inbox::with_causes;
use crate::tls::{PeerFiles, PeerTls};

/// The schemes that speak TLS.
const SCHEMES: [&str; 3] = ["https", "amqps", "tls"];

/// TLS where we connect.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerTlsSection {
    /// The authorities that may have signed the other side's certificate, as PEM. Unset: the machine's.
    pub ca: Option<PathBuf>,
    /// A certificate to show to who asks for one, followed by those between it and a root, as PEM …
    pub certificate: Option<PathBuf>,
    /// … and its private key, as PEM.
    pub key: Option<PathBuf>,
}

impl PeerTlsSection {
    /// `None` after an error was reported. `scheme`: of the URL it belongs to.
    pub(super) fn resolve(&self, at: &str, scheme: &str, report: &mut Report) -> Option<PeerTls> {
        if !SCHEMES.contains(&scheme) {
            report.error(
                at,
                format!(
                    "{scheme}:// speaks no TLS; write the URL with https, amqps or tls (for NATS), or remove this"
                ),
            );
            return None;
        }
        let paths = [("ca", &self.ca), ("certificate", &self.certificate), ("key", &self.key)];
        let empty = paths
            .into_iter()
            .filter(|(_, path)| path.as_ref().is_some_and(|path| path.as_os_str().is_empty()));
        let mut is_complete = true;
        for (key, _) in empty {
            report.error(&format!("{at}.{key}"), "name a PEM file");
            is_complete = false;
        }
        let identity = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((plain(certificate), plain(key))),
            (None, None) => None,
            _ => {
                report.error(at, "a certificate needs its key and a key its certificate; name both");
                is_complete = false;
                None
            }
        };
        if !is_complete {
            return None;
        }
        let files = PeerFiles { ca: self.ca.as_deref().map(plain), identity };
        PeerTls::load(&files).map_err(|error| report.error(at, with_causes(&error))).ok()
    }
}

/// What `tls` says, if there is one. `Err` after an error was reported.
pub(super) fn resolve(
    section: Option<&PeerTlsSection>,
    at: &str,
    scheme: &str,
    report: &mut Report,
) -> Result<Option<PeerTls>, ()> {
    match section {
        Some(section) => section.resolve(&format!("{at}.tls"), scheme, report).map(Some).ok_or(()),
        None => Ok(None),
    }
}
