//! Sources that ask for a client's certificate.

use super::Site;
use crate::support::app::{SIGNING_SECRET, said};
use crate::support::certificates::Authority;
use crate::support::signing::hmac_hex;
use crate::support::tls::TlsClient;
use crate::support::{Backend, Request, Setup};

const BODY: &str = r#"{"id":"evt_1"}"#;

fn source(name: &str, verify: &str) -> String {
    format!(
        r#"
[[source]]
name = "{name}"
verify = {verify}
event_id = ["body:/id"]
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#
    )
}

fn to(source: &str) -> Request {
    Request::post(&format!("/hooks/{source}"), BODY)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_source_decides_whose_certificate_may_send() {
    let site = Site::new(Backend::Sqlite).await;
    let pinned = site.theirs.issue("pinned", &[]);
    let fingerprint = {
        use sha2::Digest as _;
        hex::encode(sha2::Sha256::digest(pinned.certificate.der()))
    };
    let app = site
        .setup(true)
        .and_source(&source("any", "{ scheme = \"mtls\" }"))
        .and_source(&source("named", "{ scheme = \"mtls\", allow_names = [\"relay.example.com\"] }"))
        .and_source(&source("subject", "{ scheme = \"mtls\", allow_subjects = [\"CN=relay\"] }"))
        .and_source(&source(
            "pinned",
            &format!("{{ scheme = \"mtls\", allow_fingerprints = [\"{fingerprint}\"] }}"),
        ))
        .start_on(site.database.clone())
        .await;
    let nobody = TlsClient::new(&site.ours);
    let relay = TlsClient::showing(&site.ours, &site.theirs.issue("relay", &["relay.example.com"]));
    let other = TlsClient::showing(&site.ours, &site.theirs.issue("other", &["other.example.com"]));
    let pinned = TlsClient::showing(&site.ours, &pinned);
    for (client, who, admitted) in [
        (&nobody, "nobody", &["shop"][..]),
        (&relay, "relay", &["shop", "any", "named", "subject"]),
        (&other, "other", &["shop", "any"]),
        (&pinned, "pinned", &["shop", "any", "pinned"]),
    ] {
        let mut connection = client.open(app.public()).await.expect("a handshake");
        for source in ["shop", "any", "named", "subject", "pinned"] {
            let answer = connection.send(&to(source)).await.expect("an answer");
            if admitted.contains(&source) {
                assert!(answer.is_success(), "{who} to {source}: {answer:?}");
            } else {
                answer.expect(401, "unverified");
                assert!(!answer.text().contains("certificate"), "the sender is told nothing: {answer:?}");
            }
        }
    }
    let mut listed = String::new();
    for _ in 0..100 {
        listed = app.admin_get("/api/v1/deliveries?outcome=unverified&limit=100").await.text();
        if listed.contains("CN=other") && listed.contains("showed no certificate") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the ledger does not say whose certificate was refused: {listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_authority_does_not_get_through_the_handshake() {
    let site = Site::new(Backend::Sqlite).await;
    let app = site.setup(true).start_on(site.database.clone()).await;
    let stranger = Authority::new().issue("relay", &["relay.example.com"]);
    let expired = site.theirs.issue_until("relay", &["relay.example.com"], 2021);
    for identity in [stranger, expired] {
        let sent = TlsClient::showing(&site.ours, &identity).send(app.public(), &to("shop")).await;
        assert!(sent.is_err(), "{sent:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_goes_together_with_signatures() {
    let site = Site::new(Backend::Sqlite).await;
    let signed =
        format!("{{ scheme = \"hmac\", header = \"x-signature\", secrets = [\"{SIGNING_SECRET}\"] }}");
    let app = site
        .setup(true)
        .and_source(&source("both", &format!("{{ all_of = [{{ scheme = \"mtls\" }}, {signed}] }}")))
        .and_source(&source("either", &format!("{{ any_of = [{{ scheme = \"mtls\" }}, {signed}] }}")))
        .start_on(site.database.clone())
        .await;
    let nobody = TlsClient::new(&site.ours);
    let relay = TlsClient::showing(&site.ours, &site.theirs.issue("relay", &[]));
    for (client, shows) in [(&nobody, false), (&relay, true)] {
        for signs in [false, true] {
            for (source, admitted) in [("both", shows && signs), ("either", shows || signs)] {
                let mut request = to(source);
                if signs {
                    request = request.header("x-signature", hmac_hex(SIGNING_SECRET, BODY.as_bytes()));
                }
                let answer = client.send(app.public(), &request).await.expect("an answer");
                assert_eq!(answer.is_success(), admitted, "{source}, certificate {shows}, signature {signs}");
            }
        }
    }
    let metrics = app.admin_get("/metrics").await.text();
    assert!(
        metrics.contains("hooklatch_signature_matched_total{source=\"both\",secret_index=\"0\"} 1\n"),
        "which secret signed is counted: {metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_asks_for_certificates_nobody_can_see_does_not_start() {
    let app = Setup::new(Backend::Sqlite).start().await;
    let nested = "{ any_of = [{ scheme = \"bearer\", secrets = [\"x\"] }, { scheme = \"mtls\" }] }";
    for verify in ["{ scheme = \"mtls\" }", nested] {
        app.edit_config(|text| {
            text.split("\n[[source]]").next().unwrap_or_default().to_owned() + &source("partner", verify)
        });
        let refused = app.run(&["serve"]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains("set http.tls with client_ca"), "{}", said(&refused));
    }
}
