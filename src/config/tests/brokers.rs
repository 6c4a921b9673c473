//! What is said of destinations and sources that are brokers.

use super::*;

fn destination(lines: &str) -> String {
    format!("[[destination]]\nname = 'bus'\n{lines}\n")
}

fn source(lines: &str) -> String {
    format!("[[source]]\nname = 'shop'\n{lines}\n")
}

/// Each of the texts is in the message.
fn names(text: &str, expected: &[&str]) {
    let message = wrong(text);
    for expected in expected {
        assert!(message.contains(expected), "{expected:?} is not in {message}");
    }
}

#[test]
#[cfg(all(feature = "amqp", feature = "nats"))]
fn what_a_broker_lacks_is_named() {
    names(
        &destination("url = 'amqp://localhost'"),
        &["routing_key: the default exchange", "name an exchange"],
    );
    let unknown_place = "url = 'amqp://localhost'\nexchange = 'x'\nrouting_key = '{kind}'";
    names(
        &destination(unknown_place),
        &["destination[0].routing_key: there is no {kind}; write {event_type}"],
    );
    names(&destination("url = 'nats://localhost'"), &["destination[0].subject", "add subject ="]);
    names(&destination("url = 'amqp:///x'\nexchange = 'x'"), &["there is no host"]);
    names(&source("kind = 'amqp'"), &["source[0].url", "add url =", "add queue ="]);
    let no_stream = "kind = 'nats'\nurl = 'nats://localhost'\nqueue = 'q'\nprefetch = 0\nmax_attempts = 0";
    names(
        &source(no_stream),
        &["add stream =", "source[0].prefetch: write", "source[0].max_attempts: write"],
    );
}

#[test]
#[cfg(all(feature = "amqp", feature = "nats"))]
fn keys_that_belong_elsewhere_are_refused() {
    let http = "url = 'https://localhost'\nexchange = 'x'\nunroutable = 'retry'\ntopic = 't'";
    let belongs = ["exchange: this belongs to", "unroutable: this belongs to", "topic: this belongs to"];
    names(&destination(http), &belongs);
    let nats = "url = 'nats://localhost'\nsubject = 's'\nrouting_key = 'x'\nsign = { scheme = 'none' }";
    names(&destination(nats), &["routing_key: this belongs to", "sign: this belongs to"]);
    let posted = "verify = { scheme = 'none' }\nqueue = 'q'\nprefetch = 1";
    names(&source(posted), &["source[0].queue: this belongs to", "source[0].prefetch: this belongs to"]);
    let queue =
        "kind = 'amqp'\nurl = 'amqp://localhost'\nqueue = 'q'\nstream = 's'\nverify = { scheme = 'none' }";
    names(&source(queue), &["source[0].stream: this belongs to", "source[0].verify: messages of a queue"]);
    names(&source("kind = 'amqp'\nurl = 'nats://localhost'\nqueue = 'q'"), &["no URL of the source's kind"]);
}

#[test]
#[cfg(all(feature = "amqp", feature = "nats"))]
fn tls_that_cannot_be_is_told_with_the_way_out() {
    for url in ["http://localhost", "amqp://localhost", "nats://localhost"] {
        let lines = format!("url = '{url}'\nrouting_key = 'q'\nsubject = 's'\ntls = {{ ca = 'x.pem' }}");
        names(&destination(&lines), &["destination[0].tls", "speaks no TLS; write the URL with"]);
    }
    let lines = "url = 'https://localhost'\ntls = { ca = '/nowhere/ca.pem' }";
    names(&destination(lines), &["destination[0].tls: /nowhere/ca.pem cannot be read"]);
    let lines = "url = 'https://localhost'\ntls = { certificate = 'x.pem' }";
    names(&destination(lines), &["a certificate needs its key"]);
    names(&destination("url = 'https://localhost'\ntls = { ca = '' }"), &["tls.ca: name a PEM file"]);
    let queue = "kind = 'amqp'\nurl = 'amqps://localhost'\nqueue = 'q'\ntls = { key = 'k', cert = 'c' }";
    names(&source(queue), &["cert", "certificate"]);
    let queue = "kind = 'amqp'\nurl = 'amqps://localhost'\nqueue = 'q'\ntls = { ca = '/nowhere/ca.pem' }";
    names(&source(queue), &["source[0].tls: /nowhere/ca.pem cannot be read"]);
    names(&source("verify = { scheme = 'none' }\ntls = {}"), &["source[0].tls: this belongs to"]);
}

#[test]
#[cfg(not(feature = "kafka"))]
fn a_broker_that_is_not_built_in_is_refused_with_the_way_out() {
    let kafka = "url = 'kafka://localhost'\ntopic = 't'";
    names(&destination(kafka), &["built without \"kafka\"", "--features kafka"]);
}

#[test]
#[cfg(feature = "amqp")]
fn a_password_in_the_file_is_warned_of_and_never_shown() {
    let written = source("kind = 'amqp'\nurl = 'amqp://u:s3cret@localhost'\nqueue = 'q'");
    let config = Config::parse("hooklatch.toml", &written, &Environment::default()).expect("it can be used");
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(!format!("{config:?}").contains("s3cret"));
    let queue = config.queues().next().expect("a queue");
    assert_eq!((queue.queue.as_str(), queue.prefetch, queue.max_attempts), ("q", 256, 20));
}
