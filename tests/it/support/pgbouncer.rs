//! PgBouncer in transaction mode before a test's database.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::cluster::free_port;

/// Fewer than the receiver opens, so that its connections share them.
const SERVER_CONNECTIONS: u16 = 3;
const STARTS_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct PgBouncer {
    process: Child,
    /// The database, reached through the pooler.
    pub(crate) url: String,
    _directory: TempDir,
}

impl PgBouncer {
    /// `None` when the caller declared it absent; anything else that is missing is a failure.
    pub(crate) fn before(database_url: &str) -> Option<Self> {
        let program = std::env::var("HOOKLATCH_TEST_PGBOUNCER")
            .expect("HOOKLATCH_TEST_PGBOUNCER is not set: run the tests with scripts/test");
        if program == "absent" {
            eprintln!("NOT TESTED: PgBouncer is absent");
            return None;
        }
        let (user, password, server_port, database) = parts(database_url);
        let port = free_port();
        let directory = TempDir::new().expect("a temporary directory");
        let file = directory.path().join("pgbouncer.ini");
        let ini = format!(
            "[databases]\n\
             {database} = host=127.0.0.1 port={server_port} user={user} password={password}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             default_pool_size = {SERVER_CONNECTIONS}\n\
             max_client_conn = 200\n"
        );
        std::fs::write(&file, ini).expect("our own directory");
        let mut command = Command::new(program);
        // It refuses to run as root.
        if is_root() {
            open_to_others(&directory);
            command.args(["--user", "nobody"]);
        }
        let process = command
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("PgBouncer can be run");
        let bouncer = Self {
            process,
            url: format!("postgres://{user}@127.0.0.1:{port}/{database}"),
            _directory: directory,
        };
        let deadline = Instant::now() + STARTS_WITHIN;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "PgBouncer does not listen");
            std::thread::sleep(POLL);
        }
        Some(bouncer)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn open_to_others(directory: &TempDir) {
    use std::os::unix::fs::PermissionsExt as _;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("our own directory");
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("every Unix has id");
    id.stdout.trim_ascii() == b"0"
}

/// User, password, port and database of a URL that the tests made.
fn parts(url: &str) -> (&str, &str, &str, &str) {
    let split = || {
        let (credentials, rest) = url.strip_prefix("postgres://")?.split_once('@')?;
        let (user, password) = credentials.split_once(':')?;
        let (server, database) = rest.split_once('/')?;
        Some((user, password, server.split_once(':')?.1, database))
    };
    split().expect("the tests' own URL")
}
