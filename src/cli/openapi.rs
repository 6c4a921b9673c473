//! `hooklatch openapi`: prints the OpenAPI document.

use clap::Args;

use super::Failure;

/// Print the OpenAPI document of both listeners, as JSON.
#[derive(Debug, Args)]
pub(super) struct Openapi {}

impl Openapi {
    #[expect(clippy::unused_self, reason = "as every other subcommand")]
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = crate::http::openapi()
            .to_pretty_json()
            .map_err(|error| Failure::because("cannot print the document", &error))?;
        say!("{document}");
        Ok(())
    }
}
