//! A real message broker: one for all tests, or one of a test's own to stop and start. `scripts/broker`
//! does the work.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::app::said;
use super::certificates::Authority;
use super::database::unique;

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    RabbitMq,
    Nats,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::RabbitMq => "rabbitmq",
            Self::Nats => "nats",
        }
    }

    /// Says who declared it absent; anything else that is missing is a failure.
    fn is_absent(self) -> bool {
        let variable = format!("HOOKLATCH_TEST_{}", self.name().to_uppercase());
        let program = std::env::var(&variable)
            .unwrap_or_else(|_| panic!("{variable} is not set: run the tests with scripts/test"));
        if program == "absent" {
            eprintln!("NOT TESTED: {} is absent", self.name());
        }
        program == "absent"
    }
}

/// An instance. It ends with the run of the tests.
#[derive(Debug)]
pub(crate) struct Broker {
    kind: Kind,
    directory: PathBuf,
    /// Where its certificate is, if it speaks TLS.
    certificates: Option<PathBuf>,
    /// RabbitMQ: never by TLS; NATS: by TLS if it has a certificate.
    pub(crate) url: String,
    /// By TLS, if it has a certificate.
    pub(crate) tls_url: String,
}

impl Broker {
    /// The one that all tests share, started by the first that asks. `None`: it is absent.
    pub(crate) fn shared(kind: Kind) -> Option<&'static Self> {
        static RABBITMQ: OnceLock<Option<Broker>> = OnceLock::new();
        static NATS: OnceLock<Option<Broker>> = OnceLock::new();
        let place = match kind {
            Kind::RabbitMq => &RABBITMQ,
            Kind::Nats => &NATS,
        };
        place.get_or_init(|| Self::own(kind)).as_ref()
    }

    /// One of the test's own. `None`: it is absent.
    pub(crate) fn own(kind: Kind) -> Option<Self> {
        Self::create(kind, None)
    }

    /// One of the test's own that speaks TLS: with a certificate of this authority for `localhost`, in a
    /// directory where there is `ca.pem` too, and `client.crt` with `client.key`.
    pub(crate) fn with_tls(kind: Kind, authority: &Authority, directory: &Path) -> Option<Self> {
        std::fs::write(directory.join("ca.pem"), authority.pem()).expect("a file");
        authority.issue("broker", &["localhost"]).write(directory, "server");
        authority.issue("hooklatch", &["hooklatch"]).write(directory, "client");
        Self::create(kind, Some(directory.to_owned()))
    }

    fn create(kind: Kind, certificates: Option<PathBuf>) -> Option<Self> {
        if kind.is_absent() {
            return None;
        }
        let parent = std::env::var_os("HOOKLATCH_TEST_BROKERS")
            .expect("HOOKLATCH_TEST_BROKERS is not set: run the tests with scripts/test");
        let directory = PathBuf::from(parent).join(unique());
        let (url, tls_url) = Default::default();
        let mut broker = Self { kind, directory, certificates, url, tls_url };
        let urls = broker.start();
        let mut urls = urls.lines().map(str::to_owned);
        broker.url = urls.next().expect("a URL");
        broker.tls_url = urls.next().unwrap_or_else(|| broker.url.clone());
        Some(broker)
    }

    /// Starts it again where it was, with what it had kept; returns its URLs.
    pub(crate) fn start(&self) -> String {
        let certificates = self.certificates.as_ref().map(|path| path.to_str().expect("UTF-8"));
        let arguments = ["start", self.kind.name(), self.path()];
        let started = self.script(&arguments.into_iter().chain(certificates).collect::<Vec<_>>());
        assert!(started.status.success(), "{}", said(&started));
        String::from_utf8_lossy(&started.stdout).trim().to_owned()
    }

    /// In order.
    pub(crate) fn stop(&self) {
        let stopped = self.script(&["stop", self.path()]);
        assert!(stopped.status.success(), "{}", said(&stopped));
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) {
        let killed = self.script(&["stop", self.path(), "kill"]);
        assert!(killed.status.success(), "{}", said(&killed));
    }

    /// `rabbitmqctl`.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.script(&[&["ctl", self.path()], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn path(&self) -> &str {
        self.directory.to_str().expect("a temporary path is UTF-8")
    }

    fn script(&self, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/broker");
        Command::new(script).args(arguments).output().expect("scripts/broker can be run")
    }
}

impl Drop for Broker {
    /// The shared ones are never dropped: `scripts/test` ends them.
    fn drop(&mut self) {
        let stopped = self.script(&["stop", self.path(), "kill"]);
        assert!(stopped.status.success() || std::thread::panicking(), "{}", said(&stopped));
    }
}
