//! From what an operator wrote to a verifier, or to the sentence that says what is wrong.
//!
//! Knobs that a scheme fixes, or has no use for, are mistakes and are refused.

use std::sync::Arc;

use super::config::{Hash, VerifyConfig, VerifyConfigError};
use super::engine::HeaderScheme;
use super::handshake::HandshakeKind;
use super::key::Dated;
use super::knob_check::bad;
use super::knobs::{ENGINE_KNOBS, Kind, Knobs, refuse_foreign_knobs, set_knobs, written_out};
use super::mtls::{ClientScheme, MTLS};
use super::presets::{Preset, Way};
use super::public_key;
use super::timestamp::Window;
use super::token::{TokenPlace, TokenScheme};
use super::{
    ALL_OF, ANY_OF, AdyenScheme, AllowList, Certificates, MailgunScheme, NONE, PayPalScheme, Scheme,
    TwilioScheme, Verifier,
};
use crate::config::SecretRef;
use crate::secret::Secret;

/// The engine with every knob in the operator's hands: with a shared secret, with a public key,
/// with a plain hash.
const HMAC: &str = "hmac";
const PUBLIC_KEY: &str = "public-key";
const HASH: &str = "hash";
/// A secret that is shown, not used.
const BEARER: &str = "bearer";
const TOKEN: &str = "token";
const BASIC: &str = "basic";

/// The schemes that name no sender.
pub(super) const GENERIC: [&str; 8] = [NONE, HMAC, PUBLIC_KEY, HASH, BEARER, TOKEN, BASIC, MTLS];

/// How alike (Jaro-Winkler, 0 to 1) an unknown scheme and the one suggested are at least.
const LIKELY_MEANT: f64 = 0.75;

/// Most schemes of one `all_of` or `any_of`, and how deep they may stand in each other.
const MAX_SCHEMES: usize = 8;
const MAX_DEPTH: usize = 3;

/// The secrets of one scheme, looked up.
struct Material {
    secrets: Vec<Dated>,
    certificate: Option<Secret>,
    handshake_token: Option<Secret>,
}

impl VerifyConfig {
    /// What is known of the sender, if a scheme names one.
    #[must_use]
    pub fn preset(&self) -> Option<&'static Preset> {
        let inner = || self.all_of.iter().chain(&self.any_of).find_map(Self::preset);
        Preset::find(&self.scheme).or_else(inner)
    }

    /// Whether what stands at `reference` may be known to everybody: a public key, a certificate.
    #[must_use]
    pub fn is_public(&self, reference: &SecretRef) -> bool {
        if self.all_of.iter().chain(&self.any_of).any(|inner| inner.is_public(reference)) {
            return true;
        }
        if self.certificate.as_ref() == Some(reference) {
            return true;
        }
        let SecretRef::Literal(secret) = reference else { return false };
        let text = secret.expose().trim();
        let takes_public_keys = self.scheme == PUBLIC_KEY
            || Preset::find(&self.scheme)
                .is_some_and(|preset| matches!(preset.way, Way::Header(Knobs { kind: Kind::Public(_), .. })));
        self.secrets.iter().any(|entry| entry.secret == *reference)
            && (text.starts_with(public_key::PUBLIC_PREFIX)
                || (takes_public_keys && !public_key::is_private(text)))
    }
}

impl Verifier {
    /// Builds a verifier of one scheme. `secrets` are those of the configuration, looked up.
    ///
    /// # Errors
    /// When the scheme is unknown, a knob is missing or makes no sense, or a secret is no key.
    pub fn new(config: &VerifyConfig, secrets: Vec<Secret>) -> Result<Self, VerifyConfigError> {
        let ends = config.secrets.iter().map(|entry| entry.not_after).chain(std::iter::repeat(None));
        let secrets = secrets.into_iter().zip(ends).map(|(secret, not_after)| Dated { secret, not_after });
        let literal = |reference: &SecretRef| match reference {
            SecretRef::Literal(secret) => Some(secret.clone()),
            SecretRef::Variable(_) | SecretRef::File(_) => None,
        };
        let material = Material {
            secrets: secrets.collect(),
            certificate: config.certificate.as_ref().and_then(literal),
            handshake_token: config.handshake_token.as_ref().and_then(literal),
        };
        build(config, &material, &mut |reference| literal(reference), 0)
    }

    /// Builds a verifier, looking secrets up. One that cannot be found is left out: whoever looks
    /// up tells, and throws the result away.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn configured(
        config: &VerifyConfig,
        look_up: &mut dyn FnMut(&SecretRef) -> Option<Secret>,
    ) -> Result<Self, VerifyConfigError> {
        let material = Material::look_up(config, look_up);
        build(config, &material, look_up, 0)
    }
}

impl Material {
    fn look_up(config: &VerifyConfig, look_up: &mut dyn FnMut(&SecretRef) -> Option<Secret>) -> Self {
        let mut secrets = Vec::with_capacity(config.secrets.len());
        for entry in &config.secrets {
            if let Some(secret) = look_up(&entry.secret) {
                secrets.push(Dated { secret, not_after: entry.not_after });
            }
        }
        Self {
            secrets,
            certificate: config.certificate.as_ref().and_then(&mut *look_up),
            handshake_token: config.handshake_token.as_ref().and_then(&mut *look_up),
        }
    }
}

fn build(
    config: &VerifyConfig,
    material: &Material,
    look_up: &mut dyn FnMut(&SecretRef) -> Option<Secret>,
    depth: usize,
) -> Result<Verifier, VerifyConfigError> {
    let allowed = AllowList::new(config)?.map(Arc::new);
    if allowed.is_some() && depth > 0 {
        return Err(bad("allow_ips", "stands within all_of or any_of; write it beside them, it is for all"));
    }
    let handshake_token = material.handshake_token.clone();
    let (name, scheme) = if config.all_of.is_empty() && config.any_of.is_empty() {
        single(config, material)?
    } else {
        composed(config, look_up, depth)?
    };
    Ok(Verifier { name, scheme, preset: Preset::find(name), handshake_token, allowed })
}

fn composed(
    config: &VerifyConfig,
    look_up: &mut dyn FnMut(&SecretRef) -> Option<Secret>,
    depth: usize,
) -> Result<(&'static str, Scheme), VerifyConfigError> {
    let (name, inner) = match (config.all_of.as_slice(), config.any_of.as_slice()) {
        (all, []) => (ALL_OF, all),
        ([], any) => (ANY_OF, any),
        _ => return Err(bad("any_of", "stands beside all_of; put one into the other")),
    };
    if !config.scheme.is_empty() || !config.secrets.is_empty() || !set_knobs(config).is_empty() {
        return Err(bad(name, "stands alone: schemes, secrets and knobs belong into its tables"));
    }
    if inner.len() > MAX_SCHEMES || depth == MAX_DEPTH {
        return Err(bad(name, "holds too many schemes, or is nested too deep"));
    }
    let mut verifiers = Vec::with_capacity(inner.len());
    for (number, config) in inner.iter().enumerate() {
        let material = Material::look_up(config, look_up);
        let built = build(config, &material, look_up, depth + 1).map_err(|error| {
            VerifyConfigError::Inner { key: name, number: number + 1, error: Box::new(error) }
        })?;
        if name == ANY_OF && matches!(built.scheme, Scheme::None) {
            return Err(bad(name, "holds scheme \"none\", which accepts everything; remove it"));
        }
        verifiers.push(built);
    }
    let scheme = if name == ALL_OF { Scheme::AllOf(verifiers) } else { Scheme::AnyOf(verifiers) };
    Ok((name, scheme))
}

fn single(config: &VerifyConfig, material: &Material) -> Result<(&'static str, Scheme), VerifyConfigError> {
    if config.scheme.is_empty() {
        return Err(VerifyConfigError::Missing {
            key: "scheme",
            way_out: "say how the sender signs, such as scheme = \"standard-webhooks\"; \"none\" verifies nothing",
        });
    }
    let secrets = &material.secrets;
    let Some(name) = GENERIC.into_iter().find(|generic| *generic == config.scheme) else {
        let preset = Preset::find(&config.scheme).ok_or_else(|| unknown_scheme(&config.scheme))?;
        return Ok((preset.scheme, of_preset(preset, config, material)?));
    };
    let scheme = match name {
        HMAC | HASH => {
            let own = ["hash", "url", "secret_encoding", "secret_prefix"];
            refuse_foreign_knobs(config, name, |key| ENGINE_KNOBS.contains(&key) || own.contains(&key))?;
            let hash = config.hash.unwrap_or(Hash::Sha256);
            let kind = if name == HMAC { Kind::Hmac(hash) } else { Kind::Hash(hash) };
            header(HeaderScheme::new(name, &written_out(config, kind)?, secrets)?)
        }
        PUBLIC_KEY => {
            let own = ["algorithm", "url"];
            refuse_foreign_knobs(config, PUBLIC_KEY, |key| {
                ENGINE_KNOBS.contains(&key) || own.contains(&key)
            })?;
            let kind = Kind::Public(config.algorithm.ok_or(VerifyConfigError::Missing {
                key: "algorithm",
                way_out: "write algorithm = \"ed25519\", \"ecdsa-p256\" or \"rsa\"",
            })?);
            header(HeaderScheme::new(PUBLIC_KEY, &written_out(config, kind)?, secrets)?)
        }
        TOKEN => {
            refuse_foreign_knobs(config, TOKEN, |key| matches!(key, "header" | "prefix"))?;
            let name = config.header.as_deref().ok_or(VerifyConfigError::Missing {
                key: "header",
                way_out: "name the header that carries the token, such as \"x-token\"",
            })?;
            let prefix = config.prefix.as_deref().unwrap_or_default();
            token(TOKEN, TokenPlace::Header { name, prefix }, secrets)?
        }
        BEARER => {
            refuse_foreign_knobs(config, BEARER, |_| false)?;
            token(BEARER, TokenPlace::Bearer, secrets)?
        }
        BASIC => {
            refuse_foreign_knobs(config, BASIC, |_| false)?;
            token(BASIC, TokenPlace::Basic, secrets)?
        }
        MTLS => {
            let own = ["allow_subjects", "allow_names", "allow_fingerprints"];
            refuse_foreign_knobs(config, MTLS, |key| own.contains(&key))?;
            if !secrets.is_empty() {
                return Err(bad(
                    "secrets",
                    "has no meaning for scheme \"mtls\"; the handshake proves the key",
                ));
            }
            Scheme::Client(Box::new(ClientScheme::new(config)?))
        }
        _ => {
            refuse_foreign_knobs(config, NONE, |_| false)?;
            if !secrets.is_empty() {
                return Err(VerifyConfigError::SecretsWithoutScheme);
            }
            Scheme::None
        }
    };
    Ok((name, scheme))
}

fn of_preset(
    preset: &'static Preset,
    config: &VerifyConfig,
    material: &Material,
) -> Result<Scheme, VerifyConfigError> {
    let scheme = preset.scheme;
    refuse_foreign_knobs(config, scheme, |key| match key {
        "tolerance" | "tolerance_future" => preset.signs_time(),
        "url" => preset.needs_url(),
        "handshake_token" => preset.handshake == HandshakeKind::Meta,
        "webhook_id" | "certificate" => matches!(preset.way, Way::PayPal),
        // Its endpoints can be set to either.
        "encoding" => scheme == "convoy",
        _ => false,
    })?;
    let window = |past, future| Window {
        past: config.tolerance.or(past),
        future: config.tolerance_future.or(config.tolerance).or(future),
    };
    let secrets = &material.secrets;
    Ok(match &preset.way {
        Way::Header(knobs) => {
            let Window { past, future } = window(knobs.past, knobs.future);
            let knobs = Knobs {
                past,
                future,
                url: config.url.as_deref(),
                encoding: config.encoding.unwrap_or(knobs.encoding),
                ..*knobs
            };
            header(HeaderScheme::new(scheme, &knobs, secrets)?)
        }
        Way::Token(place) => token(scheme, *place, secrets)?,
        Way::Twilio => Scheme::Twilio(Box::new(TwilioScheme::new(scheme, config.url.as_deref(), secrets)?)),
        Way::Adyen => Scheme::Adyen(Box::new(AdyenScheme::new(scheme, secrets)?)),
        Way::Mailgun => Scheme::Mailgun(Box::new(MailgunScheme::new(scheme, window(None, None), secrets)?)),
        Way::PayPal => Scheme::PayPal(Box::new(PayPalScheme::new(
            config.webhook_id.as_deref(),
            material.certificate.as_ref(),
            window(None, None),
            secrets,
            Certificates::of_paypal(),
        )?)),
    })
}

fn header(scheme: HeaderScheme) -> Scheme {
    Scheme::Header(Box::new(scheme))
}

fn token(
    scheme: &'static str,
    place: TokenPlace<'_>,
    secrets: &[Dated],
) -> Result<Scheme, VerifyConfigError> {
    Ok(Scheme::Token(Box::new(TokenScheme::new(scheme, place, secrets)?)))
}

fn unknown_scheme(scheme: &str) -> VerifyConfigError {
    let known = Verifier::schemes().collect::<Vec<_>>().join(", ");
    let nearest = Verifier::schemes()
        .map(|known| (strsim::jaro_winkler(&scheme.to_lowercase(), known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness >= LIKELY_MEANT);
    let hint = match nearest {
        Some((_, nearest)) => format!("did you mean `{nearest}`? (there are {known})"),
        None => format!("there are {known}; what none of them is, `hmac` and its knobs can describe"),
    };
    VerifyConfigError::UnknownScheme { scheme: scheme.to_owned(), hint }
}
