//! `[admin]`: the private listener.

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;

use crate::secret::Secret;

use super::address;
use super::environment::Environment;
use super::report::Report;
use super::secret_ref::SecretRef;
use super::tls::TlsSection;

/// The private listener as the configuration writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminSection {
    /// Address and port of `/metrics`, `/api/v1`, `/docs`, `/openapi.json`.
    #[serde(with = "address")]
    pub listen: SocketAddr,
    /// The files of the certificate. With `client_ca`, nobody gets in without a certificate.
    pub tls: Option<TlsSection>,
    /// The bearer token. Optional on loopback, required elsewhere.
    pub token: Option<SecretRef>,
}

impl Default for AdminSection {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 8081).into(), tls: None, token: None }
    }
}

/// The private listener, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    pub listen: SocketAddr,
    pub tls: Option<TlsSection>,
    /// `None` only on loopback.
    pub token: Option<Secret>,
}

impl AdminSection {
    pub(super) fn resolve(
        &self,
        public: SocketAddr,
        environment: &Environment,
        report: &mut Report,
    ) -> Admin {
        if self.listen == public && self.listen.port() != 0 {
            report.error(
                "admin.listen",
                format!(
                    "{} is the public listener's address; give the private one another port",
                    self.listen
                ),
            );
        }
        if self.token.is_none() && !self.listen.ip().is_loopback() {
            report.error(
                "admin.token",
                format!(
                    "{} can be reached from other machines, so a token is needed; set token = \"env:HOOKLATCH_ADMIN_TOKEN\", or listen on 127.0.0.1",
                    self.listen
                ),
            );
        }
        if let Some(tls) = &self.tls {
            tls.check("admin.tls", report);
        }
        let token = self.token.as_ref().and_then(|token| report.secret("admin.token", token, environment));
        Admin { listen: self.listen, tls: self.tls.clone(), token }
    }
}
