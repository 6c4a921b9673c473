//! `hooklatch send`: signs a body and posts it, as the sender of a source would.

mod body;
mod post;
mod recipe;

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::config_file::ConfigFile;

const EXAMPLES: &str = "\
Examples:
  hooklatch send --source shop --event-id evt_1 order.json
  hooklatch send --source shop --event-id evt_{i} --repeat 1000 --concurrency 16 order.json
  hooklatch send --scheme github --secret env:GITHUB_SECRET --url http://127.0.0.1:8080/hooks/github push.json";

/// Sign a file (or standard input) and post it, as the sender would.
///
/// In --event-id, --idempotency-key and --header, {i} stands for the number of the delivery.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Send {
    #[command(flatten)]
    file: ConfigFile,
    /// The body; "-" or nothing is standard input
    #[arg(value_name = "FILE")]
    body: Option<PathBuf>,
    /// Sign as this source of the configuration is verified
    #[arg(long, value_name = "NAME", conflicts_with_all = ["scheme", "secret"])]
    source: Option<String>,
    /// Sign with this scheme, without a configuration; --secret and --url go with it
    #[arg(long, requires = "url")]
    scheme: Option<String>,
    /// The secret: env:NAME, file:PATH, or the secret itself
    #[arg(long, requires = "scheme")]
    secret: Option<String>,
    /// Where to post to [default: the source's path on http.listen]
    #[arg(long)]
    url: Option<String>,
    /// Puts this id where the source looks for the event id
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
    /// Sends this Idempotency-Key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// One more header
    #[arg(long, value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// How often to send
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// How many at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
}

impl Send {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let recipe = recipe::Recipe::new(&self)?;
        let body = body::read(self.body.as_deref()).await?;
        let answers = post::all(&recipe, &body, self.repeat, usize::from(self.concurrency)).await?;
        post::print(&answers);
        match answers.iter().find(|answer| !answer.is_success()) {
            None => Ok(()),
            Some(failed) => Err(Failure::new(format!(
                "not every delivery was answered with success: {}",
                failed.way_out()
            ))),
        }
    }
}
