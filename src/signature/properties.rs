//! What holds of every delivery that a verifier accepts, without looking at one.

use std::time::Duration;

use super::handshake::HandshakeKind;
use super::presets::{Contract, Preset};
use super::{Scheme, Verifier};

impl Verifier {
    /// The name of the scheme, as configured.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.name
    }

    /// What is known of the sender, if the scheme names one.
    #[must_use]
    pub fn preset(&self) -> Option<&'static Preset> {
        match &self.scheme {
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => inner.iter().find_map(Self::preset),
            _ => self.preset,
        }
    }

    /// Which answers the sender understands.
    #[must_use]
    pub fn contract(&self) -> Contract {
        self.preset().map_or(Contract::USUAL, |preset| preset.contract)
    }

    /// How the sender asks whether an address is ours.
    #[must_use]
    pub fn handshake_kind(&self) -> HandshakeKind {
        match &self.scheme {
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => inner
                .iter()
                .map(Self::handshake_kind)
                .find(|kind| *kind != HandshakeKind::None)
                .unwrap_or(HandshakeKind::None),
            _ => self.preset.map_or(HandshakeKind::None, |preset| preset.handshake),
        }
    }

    /// For how long a captured delivery can be sent again and still be verified; `None`: for ever,
    /// since no time is signed. Event keys must be remembered for longer than this.
    #[must_use]
    pub fn replay_window(&self) -> Option<Duration> {
        match &self.scheme {
            Scheme::Header(scheme) => scheme.replay_window(),
            Scheme::Mailgun(scheme) => scheme.replay_window(),
            Scheme::PayPal(scheme) => scheme.replay_window(),
            Scheme::AllOf(inner) => inner.iter().filter_map(Self::replay_window).min(),
            Scheme::AnyOf(inner) => {
                inner.iter().map(Self::replay_window).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
            Scheme::None | Scheme::Token(_) | Scheme::Twilio(_) | Scheme::Adyen(_) | Scheme::Client(_) => {
                None
            }
        }
    }

    /// Whether [`prepare`](Self::prepare) may have something to do.
    #[must_use]
    pub fn needs_preparation(&self) -> bool {
        match &self.scheme {
            Scheme::PayPal(_) => true,
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => inner.iter().any(Self::needs_preparation),
            _ => false,
        }
    }

    /// Whether the header `name` (lower case) carries what shows that a delivery is genuine.
    #[must_use]
    pub fn is_proof(&self, name: &str) -> bool {
        match &self.scheme {
            Scheme::Header(scheme) => scheme.is_proof(name),
            Scheme::Token(scheme) => scheme.header() == name,
            Scheme::Twilio(scheme) => scheme.headers().contains(&name),
            Scheme::PayPal(scheme) => scheme.headers().contains(&name),
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => inner.iter().any(|inner| inner.is_proof(name)),
            Scheme::None | Scheme::Adyen(_) | Scheme::Mailgun(_) | Scheme::Client(_) => false,
        }
    }

    /// Whether the whole body is signed, so that not a bit of it can change.
    #[must_use]
    pub fn signs_body(&self) -> bool {
        match &self.scheme {
            // With a client certificate, the connection vouches for all that comes over it.
            Scheme::Header(_) | Scheme::Twilio(_) | Scheme::Client(_) => true,
            // PayPal signs a checksum, which another body can have too.
            Scheme::None | Scheme::Token(_) | Scheme::Adyen(_) | Scheme::Mailgun(_) | Scheme::PayPal(_) => {
                false
            }
            Scheme::AllOf(inner) => inner.iter().any(Self::signs_body),
            Scheme::AnyOf(inner) => inner.iter().all(Self::signs_body),
        }
    }

    /// Whether the header `name` (lower case) is signed.
    #[must_use]
    pub fn signs_header(&self, name: &str) -> bool {
        match &self.scheme {
            Scheme::Header(scheme) => scheme.signs_header(name),
            Scheme::PayPal(scheme) => scheme.headers().contains(&name),
            Scheme::Client(_) => true,
            Scheme::AllOf(inner) => inner.iter().any(|inner| inner.signs_header(name)),
            Scheme::AnyOf(inner) => inner.iter().all(|inner| inner.signs_header(name)),
            Scheme::None | Scheme::Token(_) | Scheme::Twilio(_) | Scheme::Adyen(_) | Scheme::Mailgun(_) => {
                false
            }
        }
    }

    /// How many secrets it has, those of `all_of` and `any_of` included.
    #[must_use]
    pub fn secret_count(&self) -> usize {
        match &self.scheme {
            Scheme::None | Scheme::PayPal(_) | Scheme::Client(_) => 0,
            Scheme::Header(scheme) => scheme.secret_count(),
            Scheme::Token(scheme) => scheme.secret_count(),
            Scheme::Twilio(scheme) => scheme.secret_count(),
            Scheme::Adyen(scheme) => scheme.secret_count(),
            Scheme::Mailgun(scheme) => scheme.secret_count(),
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => inner.iter().map(Self::secret_count).sum(),
        }
    }
}
