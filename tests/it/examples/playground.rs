//! `hooklatch playground`, as a person and as a script use it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::app::{PROGRAM, said};

/// What a usual terminal shows of a line.
const TERMINAL_COLUMNS: usize = 100;
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// The program with all it leaves behind under `scratch`.
fn playground(scratch: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("playground").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("TMPDIR", scratch).current_dir(scratch).stdin(Stdio::null());
    command
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_story_comes_out_as_it_must_and_leaves_nothing_behind() {
    let scratch = TempDir::new().expect("a temporary directory");
    let output = playground(scratch.path()).arg("--once").output().expect("the program can be run");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("All 11 steps came out as they must"), "{text}");
    assert_eq!(text.matches('✓').count(), 11, "{text}");
    assert!(!text.contains('\x1b'), "colour although nobody's terminal: {text}");
    let table = text.lines().filter(|line| line.starts_with(['╭', '│', '├', '╞', '╰']));
    for line in table {
        assert!(line.chars().count() <= TERMINAL_COLUMNS, "{line}");
    }
    assert_eq!(entries(scratch.path()), [""; 0]);
}

#[test]
fn the_story_is_told_again_on_the_same_file() {
    let scratch = TempDir::new().expect("a temporary directory");
    for _ in 0..2 {
        let output = playground(scratch.path())
            .args(["--once", "--database", "kept.db"])
            .output()
            .expect("the program can be run");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    assert!(entries(scratch.path()).contains(&"kept.db".to_owned()));
}

#[test]
fn other_machines_are_not_let_in() {
    let scratch = TempDir::new().expect("a temporary directory");
    let output = playground(scratch.path())
        .args(["--once", "--listen", "0.0.0.0:0"])
        .output()
        .expect("the program can be run");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("use 127.0.0.1"), "{}", said(&output));
}

#[test]
fn what_it_says_to_try_works_as_printed() {
    let scratch = TempDir::new().expect("a temporary directory");
    let mut child = playground(scratch.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be run");
    let guide = read_until(&mut child, "The database:");
    let commands = commands(&guide);

    let curl = find(&commands, "curl ");
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("no curl on this machine: its line is not tried");
    } else {
        for outcome in ["hooklatch-outcome: applied", "hooklatch-outcome: replayed"] {
            let answer = shell(curl);
            assert!(answer.to_ascii_lowercase().contains(outcome), "{curl}\n{answer}");
        }
    }
    shell(find(&commands, " send "));
    let shown = shell(find(&commands, " events show "));
    assert!(shown.contains("applied"), "{shown}");
    // The story's order has gone on; one by curl goes on or is about to.
    let messages = shell(find(&commands, " outbox list "));
    assert!(messages.contains("packing") && messages.contains("sent"), "{messages}");
    shell(find(&commands, " destinations pause "));
    let destinations = shell(find(&commands, " destinations list "));
    assert!(destinations.contains("packing") && destinations.contains("lunch"), "{destinations}");
    shell(find(&commands, " destinations resume "));

    stop(child);
    assert_eq!(entries(scratch.path()), [""; 0]);
}

/// What it prints until a line says `last`. The rest is read and dropped, so that it never blocks.
fn read_until(child: &mut Child, last: &str) -> String {
    let mut text = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    for line in lines.by_ref() {
        let line = line.expect("UTF-8");
        let is_last = line.contains(last);
        text.push_str(&line);
        text.push('\n');
        if is_last {
            std::thread::spawn(move || lines.for_each(drop));
            return text;
        }
    }
    panic!("it ended without saying {last:?}:\n{text}");
}

/// The indented lines, those that end in a backslash joined with the next.
fn commands(guide: &str) -> Vec<String> {
    let joined = guide.replace("\\\n", " ");
    joined.lines().filter(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect()
}

fn find<'c>(commands: &'c [String], what: &str) -> &'c str {
    let starts_or_holds = |command: &&String| command.starts_with(what) || command.contains(what);
    commands.iter().find(starts_or_holds).unwrap_or_else(|| panic!("no {what:?} in {commands:#?}"))
}

fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
    assert!(output.status.success(), "{command}\n{}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stop(mut child: Child) {
    shell(&format!("kill -TERM {}", child.id()));
    let deadline = Instant::now() + ENDS_WITHIN;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            assert_eq!(status.code(), Some(0));
            return;
        }
        assert!(Instant::now() < deadline, "it did not stop within {ENDS_WITHIN:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
