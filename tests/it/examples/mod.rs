//! What the examples and the playground promise, on the real program.

mod crash_stories;
mod orders;
mod pay;
mod playground;
mod rust_handler;
mod senders;

use std::path::{Path, PathBuf};

use crate::support::app::PROGRAM;

/// An example that is a program. `cargo test` builds it beside ours, `cargo test --test it` does not.
fn example(name: &str) -> PathBuf {
    let path = Path::new(PROGRAM).with_file_name("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build --examples", path.display());
    path
}
