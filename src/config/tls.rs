//! `tls` of a listener: the files of its certificate. Only named here; who opens the listener reads
//! them, and so does `check`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::duration::{self, show};
use super::report::Report;
use super::secret_ref::FILE_PREFIX;
use crate::tls::TlsFiles;

/// A handshake is two round trips: whoever needs longer holds a place that others want.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(60);

/// TLS on a listener.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The certificate, followed by those between it and a root, as PEM.
    pub certificate: PathBuf,
    /// The private key, as PEM.
    pub key: PathBuf,
    /// The authorities that sign the certificates of clients, as PEM. Unset: none is asked for.
    pub client_ca: Option<PathBuf>,
    /// How long a handshake may take.
    #[serde(default = "handshake_timeout", with = "duration")]
    pub handshake_timeout: Duration,
}

fn handshake_timeout() -> Duration {
    Duration::from_secs(5)
}

impl TlsSection {
    pub(super) fn check(&self, at: &str, report: &mut Report) {
        for (key, path) in [
            ("certificate", Some(&self.certificate)),
            ("key", Some(&self.key)),
            ("client_ca", self.client_ca.as_ref()),
        ] {
            if path.is_some_and(|path| path.as_os_str().is_empty()) {
                report.error(&format!("{at}.{key}"), "name a PEM file");
            }
        }
        if self.handshake_timeout.is_zero() || self.handshake_timeout > LONGEST_HANDSHAKE {
            report.error(
                &format!("{at}.handshake_timeout"),
                format!("write a time longer than nothing, up to {}", show(LONGEST_HANDSHAKE)),
            );
        }
    }

    /// The files, as who reads them takes them.
    #[must_use]
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: plain(&self.certificate),
            key: plain(&self.key),
            client_ca: self.client_ca.as_deref().map(plain),
        }
    }
}

/// A path may be written as secrets are.
pub(super) fn plain(path: &Path) -> PathBuf {
    let written = path.to_str().and_then(|path| path.strip_prefix(FILE_PREFIX));
    written.map_or_else(|| path.to_owned(), PathBuf::from)
}
