//! The program: everything is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    hooklatch::cli::run().await
}
