//! Before anything is measured: does the target do the job at all?
//!
//! Verified, applied once, replayed byte for byte, refused where the handler refuses. A target
//! that skips a part of the work would be compared unfairly.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::generator::{AnswerReader, EventId, Kind, RequestTemplate, unix_now};
use crate::store::Store;

const ANSWER_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn check(template: &RequestTemplate, address: SocketAddr, store: &Store) -> Result<()> {
    let mut template = template.clone();
    let mut rng = fastrand::Rng::new();
    let (good, poison) = (EventId::random(&mut rng), EventId::random(&mut rng));

    let first = ask(address, template.fill(good, Kind::Good, unix_now())).await?;
    ensure!(first.status == 200, "a new event is answered {}", first.status);

    let mut forged = template.fill(good, Kind::Good, unix_now()).to_vec();
    if let Some(last) = forged.last_mut() {
        *last = b' ';
    }
    let forged = ask(address, &forged).await?;
    ensure!(forged.status == 401, "a forged event is answered {}", forged.status);

    if matches!(store, Store::None) {
        return Ok(());
    }
    let again = ask(address, template.fill(good, Kind::Good, unix_now())).await?;
    ensure!(again.status == 200 && again.replayed, "a repeated event is answered {again:?}");
    ensure!(again.body == first.body, "a repeated event gets another body");

    let refused = ask(address, template.fill(poison, Kind::Poison, unix_now())).await?;
    ensure!(refused.status == 422, "an event that breaks a CHECK is answered {}", refused.status);

    let effects = store.effects().await?;
    ensure!(effects == Some(1), "one event was applied, and there are {effects:?} orders");
    Ok(())
}

#[derive(Debug)]
struct Reply {
    status: u16,
    replayed: bool,
    body: Vec<u8>,
}

async fn ask(address: SocketAddr, request: &[u8]) -> Result<Reply> {
    let exchange = async {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(request).await?;
        let mut reader = AnswerReader::default();
        let answer = reader.read(&mut socket).await?;
        Ok(Reply { status: answer.status, replayed: answer.replayed, body: reader.body().to_vec() })
    };
    tokio::time::timeout(ANSWER_LIMIT, exchange).await?
}
