//! A PostgreSQL cluster of a test's own, to stop and start. `scripts/postgres` does the work.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use tempfile::TempDir;

use super::database::unique;

const FIRST_PORT: u16 = 12_000;
const PORT_COUNT: u16 = 8_000;

#[derive(Debug)]
pub(crate) struct Cluster {
    directory: PathBuf,
    pub(crate) url: String,
    /// Removed at the end, unless the shared scratch directory is.
    _own: Option<TempDir>,
}

impl Cluster {
    /// A running cluster.
    pub(crate) fn new() -> Self {
        let (parent, own) = match std::env::var_os("HOOKLATCH_TEST_SCRATCH") {
            Some(scratch) => (PathBuf::from(scratch), None),
            None => {
                let own = TempDir::new().expect("a temporary directory");
                open_to_others(own.path());
                (own.path().to_owned(), Some(own))
            }
        };
        let directory = parent.join(unique());
        let (port, password) = (free_port(), unique());
        let url = format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres");
        let cluster = Self { directory, url, _own: own };
        cluster.script(&["create", cluster.path(), &port.to_string()], &password);
        cluster.start();
        cluster
    }

    pub(crate) fn start(&self) {
        self.script(&["start", self.path()], "");
    }

    /// `fast` closes connections and checkpoints, `immediate` is a crash.
    pub(crate) fn stop(&self, mode: &str) {
        self.script(&["stop", self.path(), mode], "");
    }

    fn path(&self) -> &str {
        self.directory.to_str().expect("a temporary path is UTF-8")
    }

    fn script(&self, arguments: &[&str], password: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/postgres");
        let mut command = Command::new(script);
        command.args(arguments).env("HOOKLATCH_TEST_PG_PASSWORD", password);
        let output = command.output().expect("scripts/postgres can be run");
        assert!(output.status.success(), "{arguments:?}: {}", super::app::said(&output));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.directory.join("data/postmaster.pid").exists() {
            self.stop("immediate");
        }
    }
}

/// The server may run as another user, who has to pass through.
fn open_to_others(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o711)).expect("our own directory");
}

/// A port that nothing listens on, below the range given out to clients. Given to nobody else: its server
/// may be stopped for now.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().expect("no test panics while it holds this");
    let seed = u16::from_str_radix(&unique()[..4], 16).expect("hex digits");
    (0..PORT_COUNT)
        .map(|step| FIRST_PORT + seed.wrapping_add(step) % PORT_COUNT)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok() && given.insert(*port))
        .expect("one of thousands of ports is free")
}
