//! `hooklatch check` and `serve` on the files of a certificate.

use super::Site;
use crate::support::Backend;
use crate::support::app::said;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_judges_the_files_of_a_certificate() {
    let site = Site::new(Backend::Sqlite).await;
    let app = site.setup(true).start_on(site.database.clone()).await;
    let directory = &site.directory;
    let checked = |fine: bool, sentence: &str| {
        let checked = app.run(&["check"]);
        let text = said(&checked);
        assert_eq!(checked.status.success(), fine, "{sentence}:\n{text}");
        assert!(text.contains(sentence), "{sentence}:\n{text}");
    };
    checked(true, "✓ http.tls: the certificate is valid until 2999-01-01");
    site.ours.issue_for_a_week("localhost", &["localhost"]).write(directory, "tls");
    checked(true, "! http.tls: the certificate ends soon");
    site.ours.issue_until("localhost", &["localhost"], 2021).write(directory, "tls");
    checked(false, "✗ http.tls: the certificate expired at 2021-01-01");
    let other = site.ours.issue("localhost", &["localhost"]);
    std::fs::write(directory.join("tls.key"), other.key.serialize_pem()).expect("can be written");
    checked(false, "does not belong to the certificate");
    other.write(directory, "tls");
    std::fs::write(directory.join("clients.pem"), "nothing").expect("can be written");
    checked(false, "clients.pem holds no certificate");
    std::fs::remove_file(directory.join("tls.key")).expect("can be removed");
    checked(false, "tls.key cannot be read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_without_its_files_does_not_start_and_says_why() {
    let site = Site::new(Backend::Sqlite).await;
    let mut app = site.setup(false).start_on(site.database.clone()).await;
    assert_eq!(app.stop(), Some(0));
    std::fs::remove_file(site.directory.join("tls.key")).expect("can be removed");
    let refused = app.run(&["serve"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("http.tls"), "{}", said(&refused));
    assert!(said(&refused).contains("tls.key cannot be read"), "{}", said(&refused));
}
