//! The load generator: a fixed number of keep-alive connections, each with one request in flight.
//!
//! A closed loop: latency is that of an answered request, and a slow server is asked less. Runs
//! on threads of its own, bounded in time whatever the server does. Knows nothing of targets.

mod request;
mod response;
mod tally;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{sleep, sleep_until, timeout};

pub(crate) use request::{EventId, Kind, RequestTemplate};
pub(crate) use response::AnswerReader;
pub(crate) use tally::Tally;

/// How long a request may stay unanswered, and a connection unopened.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Between a broken connection and the next attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// Which events a load sends.
#[derive(Clone, Debug)]
pub(crate) enum Workload {
    /// Events nobody has seen, of which so many in a thousand are refused by the handler.
    New { poison_per_mille: u32 },
    /// Events of this list, at random, again and again.
    Replay(Arc<[EventId]>),
    /// Every event of this list once, then an early end.
    Once(Arc<[EventId]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) template: RequestTemplate,
    pub(crate) workload: Workload,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// Sent, not measured.
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// Runs a load to its end.
pub(crate) async fn generate(load: Load) -> Result<Tally> {
    let threads = load.threads.clamp(1, load.connections);
    let shared = Arc::new(Shared { start_line: Barrier::new(threads), next: AtomicUsize::new(0), load });
    let workers: Vec<_> = (0..threads)
        .map(|index| {
            let (done, result) = tokio::sync::oneshot::channel();
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("load-{index}")).spawn(move || {
                // Nobody listens any more when the run was cancelled.
                drop(done.send(run_thread(&shared, index, threads)));
            })?;
            Ok(result)
        })
        .collect::<Result<_>>()?;
    let mut total = Tally::new(shared.load.window)?;
    for worker in workers {
        let tally = worker.await.map_err(|_| anyhow!("a generator thread panicked"))??;
        total.merge(&tally)?;
    }
    Ok(total)
}

/// Seconds since 1970, for signatures.
#[expect(clippy::disallowed_methods, reason = "the one place where a sender reads its clock")]
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

struct Shared {
    load: Load,
    /// All threads have opened their connections.
    start_line: Barrier,
    /// Of `Workload::Once`: the first event not yet taken.
    next: AtomicUsize,
}

impl Shared {
    fn pick(&self, rng: &mut fastrand::Rng) -> Option<(EventId, Kind)> {
        match &self.load.workload {
            Workload::New { poison_per_mille } => {
                let poison = *poison_per_mille > 0 && rng.u32(..1000) < *poison_per_mille;
                Some((EventId::random(rng), if poison { Kind::Poison } else { Kind::Good }))
            }
            Workload::Replay(ids) => Some((ids[rng.usize(..ids.len())], Kind::Good)),
            Workload::Once(ids) => {
                let taken = self.next.fetch_add(1, Ordering::Relaxed);
                ids.get(taken).map(|id| (*id, Kind::Good))
            }
        }
    }
}

fn run_thread(shared: &Arc<Shared>, index: usize, threads: usize) -> Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let connections = (index..shared.load.connections).step_by(threads).count();
    let local = LocalSet::new();
    local.block_on(&runtime, drive(Arc::clone(shared), connections))
}

/// The connections of one thread, from opening them to the last answer.
async fn drive(shared: Arc<Shared>, connections: usize) -> Result<Tally> {
    let mut sockets = Vec::with_capacity(connections);
    for _ in 0..connections {
        sockets.push(connect(shared.load.address).await.ok());
    }
    // Blocks the thread, on which nothing runs yet.
    shared.start_line.wait();

    let started = Instant::now();
    let window = Window {
        opens: started + shared.load.warm_up,
        closes: started + shared.load.warm_up + shared.load.window,
    };
    let processor_before = thread_processor_time();
    let tally = Rc::new(RefCell::new(Tally::new(shared.load.window)?));
    let mut tasks = tokio::task::JoinSet::new();
    for socket in sockets {
        tasks.spawn_local(keep_asking(Arc::clone(&shared), socket, window, Rc::clone(&tally)));
    }
    let patience = sleep_until((window.closes + REQUEST_TIMEOUT).into());
    tokio::pin!(patience);
    loop {
        tokio::select! {
            finished = tasks.join_next() => match finished {
                Some(task) => task.context("a generator task panicked")?,
                None => break,
            },
            () = &mut patience => break,
        }
    }
    // Whoever is still waiting counts as unanswered.
    tally.borrow_mut().unanswered += tasks.len() as u64;
    drop(tasks);
    let mut tally = tally.borrow().clone();
    tally.processor = thread_processor_time().saturating_sub(processor_before);
    Ok(tally)
}

#[derive(Clone, Copy)]
struct Window {
    opens: Instant,
    closes: Instant,
}

/// One connection: asks, waits, counts, until the window closes or the events run out.
async fn keep_asking(
    shared: Arc<Shared>,
    mut socket: Option<TcpStream>,
    window: Window,
    tally: Rc<RefCell<Tally>>,
) {
    let mut rng = fastrand::Rng::new();
    let mut template = shared.load.template.clone();
    let mut reader = AnswerReader::default();
    while Instant::now() < window.closes {
        let Some(open) = socket.as_mut() else {
            sleep(RECONNECT_PAUSE).await;
            reader = AnswerReader::default();
            socket = connect(shared.load.address).await.ok();
            continue;
        };
        let Some((id, kind)) = shared.pick(&mut rng) else { return };
        let request = template.fill(id, kind, unix_now());
        let asked = Instant::now();
        let exchange = async {
            open.write_all(request).await?;
            reader.read(open).await
        };
        match timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(Ok(answer)) => {
                let now = Instant::now();
                let mut tally = tally.borrow_mut();
                tally.answered(answer.status, answer.replayed);
                if (window.opens..window.closes).contains(&now) {
                    tally.measured(answer.status, now - asked);
                }
                if answer.close {
                    socket = None;
                }
            }
            Ok(Err(_)) | Err(_) => {
                tally.borrow_mut().unanswered += 1;
                socket = None;
            }
        }
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = timeout(REQUEST_TIMEOUT, TcpStream::connect(address)).await??;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn thread_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
