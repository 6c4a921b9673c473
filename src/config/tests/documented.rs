//! `config.default.toml` against the code.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{self, Visitor};

use super::super::admin::AdminSection;
use super::super::database::DatabaseSection;
use super::super::destination::DestinationSection;
use super::super::load::Written;
use super::super::source::{HandlerSection, SourceSection};
use super::super::*;
use crate::envelope::OrderRule;

#[test]
fn defaults_are_the_defaults_of_the_code() {
    let written: Written = toml::from_str(DEFAULTS).expect("the documented defaults are valid");
    assert_eq!(written.http, HttpSection::default());
    assert_eq!(written.admin, AdminSection::default());
    assert_eq!(written.database, DatabaseSection::default());
    assert_eq!(written.retention, Retention::default());
    assert_eq!(written.inbox, InboxSection::default());
    assert_eq!(written.relay, RelaySection::default());
    assert_eq!(written.log, LogSection::default());
    assert!(written.source.is_empty());
}

#[test]
#[cfg(all(feature = "amqp", feature = "nats"))]
fn the_example_lines_are_valid_when_they_are_uncommented() {
    let environment = Environment::from_iter([
        ("SHOP_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("HOOKLATCH_ADMIN_TOKEN", "y"),
        ("RABBITMQ_URL", "amqps://shop:y@rabbit.example"),
        ("NATS_URL", "nats://shop:y@nats.example"),
        ("CRM_TOKEN", "Bearer z"),
        ("CRM_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ]);
    // Kafka is not built in by default.
    let directory = tempfile::tempdir().expect("a directory");
    let text = with_certificates(&uncommented(), directory.path());
    let (built_in, kafka) = text.rsplit_once("[[destination]]").expect("the last one");
    assert!(kafka.contains("kafka://"), "{kafka}");
    let config = Config::parse("config.default.toml", built_in, &environment).expect("valid");
    assert_eq!(config.sources.len(), 3);
    assert_eq!(config.queues().count(), 2);
    assert_eq!(config.sources[0].section.handler.len(), 2);
    assert_eq!(config.destinations.len(), 3);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

/// The files that the examples name, in a directory.
fn with_certificates(text: &str, directory: &std::path::Path) -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signs itself").pem();
    for (name, pem) in
        [("ca.pem", &certificate), ("client.pem", &certificate), ("client.key", &key.serialize_pem())]
    {
        std::fs::write(directory.join(name), pem).expect("a file");
    }
    text.replace("/etc/hooklatch", directory.to_str().expect("UTF-8"))
}

#[test]
fn every_key_is_documented() {
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    for line in uncommented().lines() {
        if line.starts_with('[') {
            current = line.trim_matches(['[', ']']).to_owned();
        }
        sections.entry(current.clone()).or_default().push_str(&format!("\n{line}"));
    }
    let known: [(&str, &[&str]); 10] = [
        ("http", fields::<HttpSection>()),
        ("admin", fields::<AdminSection>()),
        ("database", fields::<DatabaseSection>()),
        ("retention", fields::<Retention>()),
        ("inbox", fields::<InboxSection>()),
        ("relay", fields::<RelaySection>()),
        ("log", fields::<LogSection>()),
        ("source", fields::<SourceSection>()),
        ("source.handler", fields::<HandlerSection>()),
        ("destination", fields::<DestinationSection>()),
    ];
    for (section, keys) in known {
        for key in keys {
            let is_table = *key == "handler";
            assert!(
                is_table || sections[section].contains(&format!("\n{key} = ")),
                "config.default.toml does not document {section}.{key}"
            );
        }
    }
    assert_eq!(sections.keys().filter(|name| !name.is_empty()).count(), known.len());
    for key in fields::<TlsSection>() {
        assert!(sections["http"].contains(&format!("{key} = ")), "http.tls.{key} is not documented");
    }
    for key in fields::<PeerTlsSection>() {
        assert!(sections["destination"].contains(&format!("{key} = ")), "tls.{key} is not documented");
    }
    for key in fields::<OrderRule>() {
        assert!(sections["source"].contains(&format!("{key} = ")), "order_by.{key} is not documented");
    }
}

/// The file with its example lines as real lines.
fn uncommented() -> String {
    let is_example = |line: &str| {
        line.starts_with("[[")
            || line
                .split_once(" = ")
                .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    DEFAULTS
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_example(rest) => rest,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The names of a struct's fields, as serde knows them.
fn fields<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    let refused = T::deserialize(FieldNames(&mut names));
    assert!(refused.is_err(), "only asked for names");
    names
}

struct FieldNames<'n>(&'n mut &'static [&'static str]);

impl<'de> de::Deserializer<'de> for FieldNames<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only structs"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(de::Error::custom("names taken"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
