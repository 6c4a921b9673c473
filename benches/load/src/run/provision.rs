//! What a run needs before it starts: a release build of hooklatch, the Python peer's environment,
//! a secret. What cannot be had is said, and its target left out.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::process::Command;

use super::progress::Progress;
use crate::plan::{Plan, RunOptions};
use crate::target::{Target, Workshop, python_peer};

/// Random bytes of the signing secret.
const SECRET_BYTES: usize = 24;

pub(super) async fn provision(
    options: &RunOptions,
    plan: &Plan,
    root: PathBuf,
    clock: &Progress,
) -> Result<Workshop> {
    let mut workshop = Workshop { root, hooklatch: None, python: None, secret: secret() };
    if plan.needs(Target::is_hooklatch) {
        workshop.hooklatch = Some(hooklatch(options.hooklatch.as_deref(), &workshop.root, clock).await?);
    }
    if plan.needs(|target| target == Target::Python) {
        match python_environment(&workshop.root, clock).await {
            Ok(environment) => workshop.python = Some(environment),
            Err(error) => clock.say(&format!("no Python peer: {error:#}")),
        }
    }
    Ok(workshop)
}

/// The binary at `path`; without one, a release build.
pub(crate) async fn hooklatch(path: Option<&Path>, root: &Path, clock: &Progress) -> Result<PathBuf> {
    match path {
        Some(path) => path.canonicalize().with_context(|| format!("no {}", path.display())),
        None => build_hooklatch(root, clock).await,
    }
}

fn secret() -> String {
    let bytes: [u8; SECRET_BYTES] = std::array::from_fn(|_| fastrand::u8(..));
    format!("whsec_{}", STANDARD.encode(bytes))
}

async fn build_hooklatch(root: &Path, clock: &Progress) -> Result<PathBuf> {
    clock.say("building hooklatch in release mode");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--locked", "--quiet", "--bin", "hooklatch", "--manifest-path"])
        .arg(root.join("Cargo.toml"));
    succeed(&mut cargo).await.context("hooklatch does not build")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/hooklatch"))
}

/// A virtual environment with exactly the pinned requirements, beside the peer.
pub(crate) async fn python_environment(root: &Path, clock: &Progress) -> Result<PathBuf> {
    let peer = python_peer(root);
    let environment = peer.join(".venv");
    let pinned = std::fs::read_to_string(peer.join("requirements.txt"))?;
    // What was installed, kept inside the environment that it describes.
    let installed = environment.join("installed.txt");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == pinned) {
        return Ok(environment);
    }
    clock.say("installing the Python peer's requirements into a virtual environment");
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment)).await?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(peer.join("requirements.txt"));
    succeed(&mut pip).await?;
    std::fs::write(installed, pinned)?;
    Ok(environment)
}

async fn succeed(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).kill_on_drop(true).status().await?;
    ensure!(status.success(), "{:?} ended with {status}", command.as_std().get_program());
    Ok(())
}
