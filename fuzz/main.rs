//! Hostile input for everything that reads what strangers send: replays a kept corpus, then changes
//! it at random for a bounded time. Runs on stable Rust, with `cargo test --test fuzz`.
//!
//!     cargo test --test fuzz -- --seconds 60 --seed 7 json_scan
//!
//! The same seed makes the same inputs in the same order; the time says how far it goes. An input that
//! makes a target panic is written to `target/fuzz/` and belongs into the corpus once it is understood.
//! `fuzz/README.md` says what each target claims.

mod mutation;
mod targets;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mutation::Mutator;
use targets::Target;

/// What each target gets when nothing else is asked for: enough to see that it works.
const USUAL_SECONDS: f64 = 0.3;
const USUAL_SEED: u64 = 1;

struct Options {
    /// For all targets together, if set.
    seconds: Option<f64>,
    seed: u64,
    filters: Vec<String>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        // Only asked which tests there are.
        Ok(None) => return ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = |target: &Target| {
        options.filters.is_empty() || options.filters.iter().any(|filter| target.name.contains(&**filter))
    };
    let targets: Vec<_> = targets::ALL.iter().filter(|target| wanted(target)).collect();
    if targets.is_empty() {
        return ExitCode::SUCCESS;
    }
    #[expect(clippy::cast_precision_loss, reason = "there are few targets")]
    let each = options.seconds.map_or(USUAL_SECONDS, |seconds| seconds / targets.len() as f64);
    let failures = targets.iter().filter(|target| !run(target, Duration::from_secs_f64(each), options.seed));
    if failures.count() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Takes the arguments of a test binary without complaint: it is run with all the others.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { seconds: None, seed: USUAL_SEED, filters: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut number = |what: &str| -> Result<f64, String> {
            let text = arguments.next().unwrap_or_default();
            text.parse().ok().filter(|n: &f64| *n >= 0.0 && *n <= 1e9).ok_or(format!("{what} needs a number"))
        };
        match &*argument {
            "--seconds" => options.seconds = Some(number("--seconds")?),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: 0 to 1e9")]
            "--seed" => options.seed = number("--seed")? as u64,
            "--list" | "--ignored" => return Ok(None),
            other if other.starts_with('-') => {}
            filter => options.filters.push(filter.to_owned()),
        }
    }
    Ok(Some(options))
}

/// Whether the target has held.
fn run(target: &Target, time: Duration, seed: u64) -> bool {
    let corpus = corpus(target.name);
    assert!(!corpus.is_empty(), "fuzz/corpus/{} is empty", target.name);
    let started = Instant::now();
    let mut inputs = 0_u64;
    let holds = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok();
    for (path, input) in &corpus {
        inputs += 1;
        if !holds(input) {
            println!("fuzz {}: FAILED on {}", target.name, path.display());
            return false;
        }
    }
    let seeds: Vec<_> = corpus.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(seed, target.dictionary);
    while started.elapsed() < time {
        let input = mutator.next(&seeds);
        inputs += 1;
        if !holds(&input) {
            println!("fuzz {}: FAILED after {inputs} inputs, kept as {}", target.name, keep(target, &input));
            return false;
        }
    }
    println!("fuzz {}: ok, {inputs} inputs in {:.1} s", target.name, started.elapsed().as_secs_f32());
    true
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    // The order of a directory is nobody's; that of the inputs must be the same everywhere.
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a readable file"))).collect()
}

fn keep(target: &Target, input: &[u8]) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = directory.join(format!("{}-{:016x}", target.name, hasher.finish()));
    let kept = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, input));
    kept.map_or_else(|error| format!("nothing ({error})"), |()| path.display().to_string())
}
