//! Certificates that are exchanged while deliveries are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Site, tls};
use crate::support::app::order;
use crate::support::certificates::Authority;
use crate::support::on_both_stores;
use crate::support::tls::TlsClient;
use crate::support::{Backend, Request, Setup};

/// What is shown to somebody who has not been here before: who has may take up an old session.
async fn shown(site: &Site, address: std::net::SocketAddr) -> Option<Vec<u8>> {
    let stream = TlsClient::new(&site.ours).stream(address).await.ok()?;
    stream.get_ref().1.peer_certificates()?.first().map(|certificate| certificate.to_vec())
}

on_both_stores! {
    async fn certificates_are_exchanged_under_load_and_no_delivery_fails(backend: Backend) {
        let site = Site::new(backend).await;
        let app = Setup::new(backend)
            .set("http.tls", &tls(&site.directory, false))
            .start_on(site.database.clone())
            .await;
        let client = TlsClient::new(&site.ours);
        let address = app.public();
        let first = shown(&site, address).await.expect("a certificate");

        // One connection is kept all the time, the others are new for each delivery.
        let over = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let mut senders = Vec::new();
        for keeps in [true, false, false] {
            let (client, over, sent) = (client.clone(), over.clone(), sent.clone());
            senders.push(tokio::spawn(async move {
                let mut connection = client.open(address).await.expect("a handshake");
                while !over.load(Ordering::Relaxed) {
                    if !keeps {
                        connection = client.open(address).await.expect("a handshake, always");
                    }
                    let id = format!("evt_{}", sent.fetch_add(1, Ordering::Relaxed));
                    let answer = connection.send(&Request::post("/hooks/shop", order(&id))).await;
                    answer.expect("an answer, always").expect(200, "applied");
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }));
        }

        let second = site.ours.issue("localhost", &["localhost"]);
        second.write(&site.directory, "tls");
        app.logs("certificate read again", 1).await;
        assert_eq!(shown(&site, address).await.as_deref(), Some(&second.certificate.der()[..]));

        // A key of another certificate, an expired certificate, nothing at all: the second stays.
        let other = site.ours.issue("localhost", &["localhost"]);
        std::fs::write(site.directory.join("tls.key"), other.key.serialize_pem()).expect("can be written");
        app.logs("does not belong to the certificate", 1).await;
        site.ours.issue_until("localhost", &["localhost"], 2021).write(&site.directory, "tls");
        app.logs("the certificate expired at 2021-01-01", 1).await;
        std::fs::remove_file(site.directory.join("tls.crt")).expect("can be removed");
        app.logs("tls.crt cannot be read", 1).await;
        assert_eq!(shown(&site, address).await.as_deref(), Some(&second.certificate.der()[..]));
        let metrics = app.admin_get("/metrics").await.text();
        assert!(metrics.contains("hooklatch_last_reload_successful{what=\"http.tls\"} 0\n"), "{metrics}");
        assert!(metrics.contains("hooklatch_reloads_total{what=\"http.tls\",result=\"refused\"} 3\n"), "{metrics}");

        let third = site.ours.issue("localhost", &["localhost"]);
        third.write(&site.directory, "tls");
        app.signal("HUP");
        app.logs("certificate read again", 2).await;
        assert_eq!(shown(&site, address).await.as_deref(), Some(&third.certificate.der()[..]));
        let metrics = app.admin_get("/metrics").await.text();
        assert!(metrics.contains("hooklatch_last_reload_successful{what=\"http.tls\"} 1\n"), "{metrics}");

        over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.await.expect("no delivery failed");
        }
        assert_ne!(first, third.certificate.der().to_vec());
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent > 100, "{sent} deliveries are no load");
        assert_eq!(app.database.effects().await, i64::try_from(sent).expect("few"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_of_clients_are_exchanged_too() {
    let site = Site::new(Backend::Sqlite).await;
    let app = site.setup(true).start_on(site.database.clone()).await;
    let new = Authority::new();
    let before = TlsClient::showing(&site.ours, &site.theirs.issue("relay", &[]));
    let after = TlsClient::showing(&site.ours, &new.issue("relay", &[]));
    let request = Request::post("/hooks/shop", order("evt_1"));
    assert!(before.send(app.public(), &request).await.is_ok());
    assert!(after.send(app.public(), &request).await.is_err());
    std::fs::write(site.directory.join("clients.pem"), new.pem()).expect("can be written");
    app.logs("certificate read again", 1).await;
    assert!(before.send(app.public(), &request).await.is_err(), "and no old session is taken up again");
    assert!(after.send(app.public(), &request).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_is_near_is_told_at_start_and_in_the_metrics() {
    let site = Site::new(Backend::Sqlite).await;
    site.ours.issue_for_a_week("localhost", &["localhost"]).write(&site.directory, "tls");
    let app = site.setup(false).start_on(site.database.clone()).await;
    app.logs("the certificate ends soon", 1).await;
    let metrics = app.admin_get("/metrics").await.text();
    let name = "hooklatch_certificate_end_timestamp_seconds{what=\"http.tls\"} ";
    let end = metrics.split(name).nth(1).and_then(|rest| rest.lines().next()?.parse::<i64>().ok());
    let days = (end.expect("an end") - crate::support::app::unix_now()) / (24 * 60 * 60);
    assert!((6..=7).contains(&days), "{days}");
}
