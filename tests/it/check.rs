//! `hooklatch check` before there is anything to look at.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::app::{PROGRAM, said};
use crate::support::{Backend, TestDatabase};

const SOURCE: &str = r#"
[[source]]
name = "shop"
verify = { scheme = "none" }
event_id = "body:/id"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#;

/// Runs a subcommand over a configuration in `directory`.
fn run(command: &str, directory: &Path, database: &str) -> Output {
    let file = directory.join("hooklatch.toml");
    std::fs::write(&file, format!("[database]\n{database}\n{SOURCE}")).expect("can be written");
    Command::new(PROGRAM).arg(command).arg("--config").arg(&file).output().expect("the program can be run")
}

/// The names of the files in `directory`.
fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_database_file_that_is_not_there_is_told_of_and_not_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    let url = format!("url = \"sqlite://{}/inbox.db\"", here.display());
    let checked = run("check", here, &url);
    let told = said(&checked);
    assert!(checked.status.success(), "{told}");
    assert!(told.contains("is not there yet; `serve` will create it, and so will `migrate`"), "{told}");
    assert!(told.contains("! handlers: NOT CHECKED, because there is no database yet: 1 with sql"), "{told}");
    assert_eq!(files(here), ["hooklatch.toml"], "{told}");

    // Where `serve` may not bring the schema, it would not start.
    let checked = run("check", here, &format!("{url}\nauto_migrate = false"));
    assert!(!checked.status.success(), "{}", said(&checked));
    assert!(said(&checked).contains("run `hooklatch migrate`, which creates it"), "{}", said(&checked));
    assert_eq!(files(here), ["hooklatch.toml"]);

    let migrated = run("migrate", here, &url);
    assert!(migrated.status.success(), "{}", said(&migrated));
    assert!(here.join("inbox.db").is_file());
    let told = said(&run("check", here, &url));
    assert!(told.contains("✓ migrations") && !told.contains("NOT CHECKED"), "{told}");
}

#[test]
fn a_database_file_that_cannot_be_made_is_wrong() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("url = \"sqlite://{}/none/inbox.db\"", directory.path().display());
    let checked = run("check", directory.path(), &url);
    assert!(!checked.status.success(), "{}", said(&checked));
    assert!(said(&checked).contains("make its directory first"), "{}", said(&checked));
    assert_eq!(files(directory.path()), ["hooklatch.toml"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_were_not_checked_are_told_of() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let database = TestDatabase::new(backend).await;
        database.execute("CREATE TABLE anything (id TEXT)").await;
        for auto_migrate in ["true", "false"] {
            let settings = format!("url = \"{}\"\nauto_migrate = {auto_migrate}", database.url);
            let checked = run("check", &database.directory(), &settings);
            let told = said(&checked);
            assert_eq!(checked.status.success(), auto_migrate == "true", "{told}");
            let line = "! handlers: NOT CHECKED, because migrations are missing: 1 with sql";
            assert!(told.contains(line), "{told}");
        }
    }
}
