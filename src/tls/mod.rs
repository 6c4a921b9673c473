//! TLS on our own listeners: which certificate we show, whose certificates we take, and how both
//! are exchanged while connections are open. And TLS where we connect to others (`peer`).
//!
//! TLS 1.2 and 1.3 by rustls with ring; nothing older can be spoken. HTTP/2 is not offered: limits,
//! timeouts and the handling of bodies that nobody reads are written for HTTP/1.1, and a webhook
//! gains nothing from it. Knows nothing of HTTP or of the configuration's words.

mod client;
mod listener;
mod material;
mod peer;

pub use client::ClientCertificate;
pub use listener::{ClientCertificates, TlsListener};
pub use material::{Freshness, Material, TlsError, TlsFiles};
pub use peer::{PeerFiles, PeerTls, certificate_problem};
