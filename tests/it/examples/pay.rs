//! `examples/pay/`: a customer pays, and exactly one email command is applied, however often which process is
//! killed. Three services, each with a database, an inbox and an outbox of its own; between them RabbitMQ, or
//! HTTP. The files are those of the example.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{Instant, sleep};

use crate::support::app::TestApp;
use crate::support::cluster::free_port;
use crate::support::database::unique;
use crate::support::{Backend, Request, Setup, TestDatabase, http, on_both_stores};

/// A service of the example: its configuration and its tables.
struct Service {
    config: &'static str,
    tables: &'static str,
}

macro_rules! service {
    ($name:literal) => {
        Service {
            config: include_str!(concat!("../../../examples/pay/", $name, ".toml")),
            tables: include_str!(concat!("../../../examples/pay/", $name, ".sql")),
        }
    };
}

const SHOP: Service = service!("shop");
const NOTIFICATIONS: Service = service!("notifications");
const EMAIL: Service = service!("email");

/// So many invoices are written at once, whenever all are paid.
const INVOICES: u32 = 1_000;
const CUSTOMERS: u32 = 6;
/// Between two payments of a customer: what is tested is that processes are killed amid work, not that two
/// processors are kept busy.
const TAKES_A_BREATH: Duration = Duration::from_millis(30);
/// How often each service is killed.
const ROUNDS: usize = 5;
/// Without any progress.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Past every lease.
const SETTLES: Duration = Duration::from_millis(1500);
/// Pauses so short that whoever is slow to start would use up the attempts that last for days by default.
const QUICK: &str = "backoff_first = \"20ms\"\nbackoff_longest = \"500ms\"\nbreaker_pause = \"50ms\"\nmax_attempts = 1000000\n";

/// What is between the services.
enum Between {
    Http,
    #[cfg(feature = "amqp")]
    RabbitMq {
        url: String,
    },
}

impl Between {
    /// The example's sources and destinations, the queues in them reached in this way.
    fn connect(&self, config: &str, ports: &[(&str, u16)]) -> String {
        let mut config = config[config.find("[[source]]").expect("a source")..].to_owned();
        config = config.replace("[[destination]]\n", &format!("[[destination]]\n{QUICK}"));
        match self {
            Self::Http => {
                for (queue, port) in ports {
                    config = config
                        .replace(
                            &format!("kind = \"amqp\"\nurl = \"env:RABBITMQ_URL\"\nqueue = \"{queue}\"\n"),
                            "verify = { scheme = \"none\" }\n",
                        )
                        .replace(
                            &format!("url = \"env:RABBITMQ_URL\"\nrouting_key = \"{queue}\""),
                            &format!("url = \"http://127.0.0.1:{port}/hooks/{queue}\""),
                        );
                }
            }
            #[cfg(feature = "amqp")]
            Self::RabbitMq { url } => config = config.replace("env:RABBITMQ_URL", url),
        }
        assert!(!config.contains("env:"), "something is left to the environment:\n{config}");
        config
    }
}

/// The services, in the order in which a payment travels.
struct Chain {
    shop: TestApp,
    notifications: TestApp,
    email: TestApp,
}

impl Chain {
    async fn start(backend: Backend, between: &Between) -> Self {
        // The same address after every start.
        let ports = [free_port(), free_port(), free_port()];
        let queues = [("paid-invoices", ports[1]), ("email-commands", ports[2])];
        let start = async |service: &Service, port: u16| {
            let database = TestDatabase::new(backend).await;
            for statement in service.tables.split_inclusive(";\n") {
                database.execute(statement).await;
            }
            Setup::new(backend)
                .sources(&between.connect(service.config, &queues))
                .set("http.listen", &format!("\"127.0.0.1:{port}\""))
                .set("relay.poll_every", "\"50ms\"")
                .set("relay.lease", "\"1s\"")
                .start_on(Arc::new(database))
                .await
        };
        Self {
            shop: start(&SHOP, ports[0]).await,
            notifications: start(&NOTIFICATIONS, ports[1]).await,
            email: start(&EMAIL, ports[2]).await,
        }
    }

    fn services(&mut self) -> [&mut TestApp; 3] {
        [&mut self.shop, &mut self.notifications, &mut self.email]
    }

    /// Kills each service `ROUNDS` times, in any order and at any moment; `between` is told the round.
    async fn kill_at_random(&mut self, between: impl Fn(usize)) {
        let mut chance = Chance::new();
        for round in 0..ROUNDS {
            between(round);
            let first = chance.below(3);
            for turn in 0..3 {
                sleep(Duration::from_millis(chance.below(300))).await;
                let service = usize::try_from((first + turn) % 3).expect("small");
                let services = self.services();
                services[service].kill();
                sleep(Duration::from_millis(chance.below(150))).await;
                block_in_place(|| services[service].start());
            }
        }
    }

    /// Waits until all that was paid has arrived everywhere, and claims that it has once.
    async fn each_paid_invoice_has_one_email(&self, paid: i64) {
        let Self { shop, notifications, email } = self;
        let jobs = "SELECT count(DISTINCT invoice_id) FROM email_jobs";
        none_left("emails to arrive", async || paid - email.database.number(jobs).await).await;
        for service in [shop, notifications] {
            none_left("messages to be marked as sent", async || unsent(service).await).await;
        }
        // What comes twice comes now.
        sleep(SETTLES).await;
        let invoices =
            shop.database.column("SELECT id FROM invoices WHERE status = 'paid' ORDER BY id").await;
        assert_eq!(i64::try_from(invoices.len()), Ok(paid));
        let told = "SELECT invoice_id FROM notifications ORDER BY invoice_id";
        each_once("notified", &notifications.database.column(told).await, &invoices);
        let sent = "SELECT invoice_id FROM email_jobs WHERE status = 'succeeded' ORDER BY invoice_id";
        each_once("an email", &email.database.column(sent).await, &invoices);
        for service in [shop, notifications] {
            assert_eq!(service.database.rows("outbox").await, paid);
        }
        for service in [shop, notifications, email] {
            assert_eq!(service.database.rows("dead_letters").await, 0);
        }
        let seen = "outcome IN ('replayed', 'duplicate')";
        let again = [deliveries(notifications, seen).await, deliveries(email, seen).await];
        eprintln!(
            "{paid} invoices paid; notifications saw {} again, the email worker {}",
            again[0], again[1]
        );
    }
}

/// Waits until nothing is left, however long it takes while it becomes less.
async fn none_left(what: &str, left: impl AsyncFn() -> i64) {
    let (mut least, mut deadline) = (i64::MAX, Instant::now() + PATIENCE);
    loop {
        let now = left().await;
        if now == 0 {
            return;
        }
        if now < least {
            (least, deadline) = (now, Instant::now() + PATIENCE);
        }
        assert!(Instant::now() < deadline, "{now} {what}: no progress within {PATIENCE:?}");
        sleep(POLL).await;
    }
}

/// Invoices without end, numbered from 0.
struct Invoices {
    database: Arc<TestDatabase>,
    /// How many were handed out, and how many were written.
    handed: Mutex<(u32, u32)>,
}

impl Invoices {
    /// One that nobody has paid.
    async fn next(&self) -> u32 {
        let mut handed = self.handed.lock().await;
        let (next, written) = *handed;
        if next == written {
            let rows: Vec<_> = (written..written + INVOICES)
                .map(|number| format!("('{}', 'issued', {number})", invoice(number)))
                .collect();
            let insert =
                format!("INSERT INTO invoices (id, status, amount_cents) VALUES {}", rows.join(", "));
            self.database.execute(&insert).await;
            handed.1 += INVOICES;
        }
        handed.0 += 1;
        next
    }
}

/// Customers who pay one invoice after the other until they are told to stop. Each presses twice, and comes
/// again until there is an answer.
struct Customers {
    enough: Arc<AtomicBool>,
    invoices: Arc<Invoices>,
    paying: Vec<JoinHandle<()>>,
}

impl Customers {
    fn start(shop: &TestApp) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let invoices = Arc::new(Invoices { database: shop.database.clone(), handed: Mutex::new((0, 0)) });
        let shop = shop.public();
        let paying = (0..CUSTOMERS)
            .map(|_| {
                let (enough, invoices) = (enough.clone(), invoices.clone());
                tokio::spawn(async move {
                    while !enough.load(Ordering::SeqCst) {
                        let number = invoices.next().await;
                        let (one, other) = (payment(number, "pay"), payment(number, "pay-elsewhere"));
                        tokio::join!(press(shop, one.clone()), press(shop, one), press(shop, other));
                        sleep(TAKES_A_BREATH).await;
                    }
                })
            })
            .collect();
        Self { enough, invoices, paying }
    }

    /// How many invoices they have paid.
    async fn stop(self) -> i64 {
        self.enough.store(true, Ordering::SeqCst);
        for customer in self.paying {
            customer.await.expect("a customer goes home");
        }
        self.invoices.handed.lock().await.0.into()
    }
}

fn invoice(number: u32) -> String {
    format!("inv-{number:08}")
}

/// The press of a button: an event, and the key that its repetitions have.
fn payment(number: u32, button: &str) -> Request {
    let event = format!("{button}-{number}");
    let body = json!({"id": event, "type": "pay", "data": {"invoice_id": invoice(number)}});
    Request::post("/hooks/pay", body.to_string()).header("idempotency-key", &event)
}

/// Sends until it is answered.
async fn press(shop: SocketAddr, request: Request) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(answer) = http::send(shop, &request).await {
            if answer.is_success() {
                return;
            }
            assert!([409, 503].contains(&answer.status), "{answer:?}");
        }
        assert!(Instant::now() < deadline, "the shop does not answer within {PATIENCE:?}");
        sleep(POLL).await;
    }
}

/// Both sorted; says only what differs.
fn each_once(what: &str, found: &[String], wanted: &[String]) {
    let twice: Vec<_> = found.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    let missing: Vec<_> = wanted.iter().filter(|id| found.binary_search(id).is_err()).collect();
    assert!(found == wanted, "{what} twice: {twice:?}; missing: {missing:?}");
}

async fn unsent(service: &TestApp) -> i64 {
    count(service, "outbox", "state <> 'sent'").await
}

async fn deliveries(service: &TestApp, which: &str) -> i64 {
    count(service, "deliveries", which).await
}

async fn count(service: &TestApp, table: &str, which: &str) -> i64 {
    let schema = if service.database.backend == Backend::Postgres { "hooklatch." } else { "" };
    service.database.number(&format!("SELECT count(*) FROM {schema}{table} WHERE {which}")).await
}

/// Numbers that nobody foresees; said at the start, so that a failure can be told apart.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let seed = u64::from_str_radix(&unique()[..15], 16).expect("hex digits") | 1;
        eprintln!("chance begins with {seed}");
        Self(seed)
    }

    /// Xorshift: from 0 to below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

on_both_stores! {
    async fn each_paid_invoice_has_one_email_over_http_whoever_is_killed(backend: Backend) {
        let mut chain = Chain::start(backend, &Between::Http).await;
        let customers = Customers::start(&chain.shop);
        chain.kill_at_random(|_| {}).await;
        let paid = customers.stop().await;
        chain.each_paid_invoice_has_one_email(paid).await;
    }
}

#[cfg(feature = "amqp")]
mod over_rabbitmq {
    use super::*;
    use crate::support::broker::{Broker, Kind};
    use crate::support::rabbit::Rabbit;

    /// The round in which the broker is killed too.
    const BROKER_DIES: usize = 2;

    on_both_stores! {
        async fn each_paid_invoice_has_one_email_whoever_is_killed(backend: Backend) {
            let Some(broker) = Broker::own(Kind::RabbitMq) else { return };
            let rabbit = Rabbit::connect(&broker.url).await;
            for queue in ["paid-invoices", "email-commands"] {
                rabbit.queue(queue).await;
            }
            let between = Between::RabbitMq { url: broker.url.clone() };
            let mut chain = Chain::start(backend, &between).await;
            let customers = Customers::start(&chain.shop);
            chain
                .kill_at_random(|round| {
                    if round == BROKER_DIES {
                        block_in_place(|| {
                            broker.kill();
                            broker.start();
                        });
                    }
                })
                .await;
            let paid = customers.stop().await;
            chain.each_paid_invoice_has_one_email(paid).await;
            let rabbit = Rabbit::connect(&broker.url).await;
            for queue in ["paid-invoices", "email-commands"] {
                assert_eq!(rabbit.ready(queue).await, 0, "{queue}");
            }
        }
    }
}
