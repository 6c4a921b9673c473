//! `hooklatch secret`: makes secrets in the form each scheme writes them.

use clap::{Args, Subcommand};

use super::Failure;
use crate::signature::{Preset, generate};

/// Make secrets for signing and verifying
#[derive(Debug, Subcommand)]
pub(super) enum SecretCommand {
    New(New),
}

const EXAMPLES: &str = "\
Examples:
  export SHOP_SECRET=$(hooklatch secret new --scheme standard-webhooks)
  hooklatch secret new --scheme public-key --json";

/// Make a secret, or a pair of keys, and print it
///
/// What is printed is the only copy. For a pair, the private key signs and the public key verifies.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct New {
    /// The scheme it is for, such as standard-webhooks, github, discord, public-key, ecdsa-p256
    #[arg(long)]
    scheme: String,
    /// Of a scheme that has both, a pair of keys (standard-webhooks: v1a)
    #[arg(long)]
    asymmetric: bool,
    /// For scripts
    #[arg(long)]
    json: bool,
}

impl SecretCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self::New(new) = self;
        let generated =
            generate(&new.scheme, new.asymmetric).map_err(|error| Failure::usage(error.to_string()))?;
        let secret = generated.secret.expose();
        if new.json {
            let mut json = serde_json::json!({ "secret": secret });
            if let Some(public) = &generated.public {
                json["public_key"] = public.as_str().into();
            }
            say!("{json}");
            return Ok(());
        }
        match &generated.public {
            None => say!("{secret}"),
            Some(public) => say!("private key (signs):   {secret}\npublic key (verifies): {public}"),
        }
        if let Some(preset) = Preset::find(&new.scheme) {
            eprintln!(
                "Most senders make the secret themselves; if {} does, use that one. This one serves `send` and tests.",
                preset.sender
            );
        }
        Ok(())
    }
}
