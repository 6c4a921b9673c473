//! The messages are part of the product: each is a snapshot.

use insta::assert_snapshot;

use super::*;

const SHOP: &str = r#"
[[source]]
name = "shop"
verify = { scheme = "none" }
event_id = "body:/id"
"#;

fn nothing() -> Environment {
    Environment::default()
}

fn wrong(text: &str) -> String {
    wrong_in(text, &nothing())
}

fn wrong_in(text: &str, environment: &Environment) -> String {
    Config::parse("hooklatch.toml", text, environment).expect_err("this must be refused").to_string()
}

fn right(text: &str) -> Config {
    Config::parse("hooklatch.toml", text, &nothing()).expect("this must be accepted")
}

#[test]
fn every_misspelt_key_is_named_with_its_line_and_the_nearest_key() {
    assert_snapshot!(wrong("
[htp]
listen = '127.0.0.1:1'
[database]
uri = 'sqlite://a.db'
[retention]
processed_event = '30d'
colour = 'red'

[[source]]
name = 'shop'
verify = { scheme = 'none', secret = ['env:A'] }
order_by = { entity = '/a', version = '/b' }
[[source.handler]]
on = []
sqll = 'SELECT 1'
"), @r#"
the configuration cannot be used: 8 problems
  hooklatch.toml:2: htp: there is no such key; did you mean `http`?
  hooklatch.toml:5: database.uri: there is no such key; did you mean `url`?
  hooklatch.toml:7: retention.processed_event: there is no such key; did you mean `processed_events`?
  hooklatch.toml:8: retention.colour: there is no such key; the keys here are processed_events, idempotency_keys, outbox_sent, dead_letters, deliveries, prune_every, prune_batch_rows
  hooklatch.toml:12: source[0].verify.secret: there is no such key; did you mean `secrets`?
  hooklatch.toml:13: source[0].order_by.version: there is no such key; the keys here are entity, sequence
  hooklatch.toml:13: source[0].order_by.sequence: this key is missing; add it
  hooklatch.toml:16: source[0].handler[0].sqll: there is no such key; did you mean `sql`?
"#);
}

#[test]
fn wrong_types_are_told_apart_and_values_are_not_repeated() {
    assert_snapshot!(wrong("
[http]
listen = 'localhost'
max_body_bytes = 'large'
max_connections = -1
keep_alive = 75
head_timeout = '30'
[admin]
token = 12345
[database]
auto_migrate = 'yes'
statement_cache = 'of'
[inbox]
deadline = true
[log]
format = ['json']
"), @r#"
the configuration cannot be used: 10 problems
  hooklatch.toml:3: http.listen: "localhost" is not an address with a port; write one such as "127.0.0.1:8080"
  hooklatch.toml:4: http.max_body_bytes: this is a text; write a whole number, not negative
  hooklatch.toml:5: http.max_connections: this is a negative number; write a whole number, not negative
  hooklatch.toml:6: http.keep_alive: this is a whole number; write a duration with its unit, such as "30s"
  hooklatch.toml:7: http.head_timeout: "30" is not a duration; write a number with a unit, such as "500ms", "30s", "24h" or "30d"
  hooklatch.toml:9: admin.token: a secret is a text in quotes: "env:NAME", "file:PATH" or the secret itself
  hooklatch.toml:11: database.auto_migrate: this is a text; write true or false
  hooklatch.toml:12: database.statement_cache: "of" is none of auto, on, off; did you mean "off"?
  hooklatch.toml:14: inbox.deadline: this is true or false; write a duration with its unit, such as "30s"
  hooklatch.toml:16: log.format: this is of another type; write one of the words it takes, in quotes
"#);
}

#[test]
fn a_text_that_is_no_toml_is_refused_with_its_line() {
    assert_snapshot!(wrong("[http]\nlisten = \"127.0.0.1:1\nworkers == 3\n[http]\n"), @r#"
the configuration cannot be used: 4 problems
  hooklatch.toml:2: this is not valid TOML: invalid basic string, expected `"`
  hooklatch.toml:3: this is not valid TOML: extra `=`, expected nothing
  hooklatch.toml:3: this is not valid TOML: unexpected key or value, expected newline, `#`
  hooklatch.toml:4: this is not valid TOML: duplicate key
"#);
}

#[test]
fn what_a_source_lacks_is_named_at_its_line() {
    assert_snapshot!(wrong("[[source]]\nname = 'shop'\n"), @r#"
the configuration cannot be used
  hooklatch.toml:1: source[0].verify: every source says how it is verified; add verify = { scheme = "standard-webhooks", secrets = ["env:NAME"] }, or { scheme = "none" } for a sender that signs nothing
"#);
    assert_snapshot!(wrong("[[source]]\nname = 'a'\nverify = { scheme = 'none' }\n[[source]]\nverify = { scheme = 'none' }\n"), @r#"
the configuration cannot be used
  hooklatch.toml:4: source[1].name: every source has a name; add name = "…", the last part of its path
"#);
    assert_snapshot!(wrong(&format!("{SHOP}[[source.handler]]\nsql = {{ postgre = 'SELECT 1' }}\n")), @r#"
the configuration cannot be used
  hooklatch.toml:7: source[0].handler[0].sql.postgre: there is no such key; did you mean `postgres`?
"#);
    assert_snapshot!(wrong(&format!("{SHOP}[[source.handler]]\nsql = {{ postgres = 'SELECT 1' }}\n")), @r#"
the configuration cannot be used
  hooklatch.toml:7: source[0].handler[0].sql: there is no statement for sqlite, which database.url names; add sqlite = "…"
"#);
}

#[test]
fn names_are_paths_and_unique() {
    assert_snapshot!(wrong("
[[source]]
name = 'a/b'
consumer = '../etc'
success_status = 500
verify = { scheme = 'none' }
[[source]]
name = 'shop'
verify = { scheme = 'none' }
[[source]]
name = 'shop'
verify = { scheme = 'none' }
"), @r#"
the configuration cannot be used: 4 problems
  hooklatch.toml:3: source[0].name: "a/b" cannot be a name; use 1 to 100 of a-z, A-Z, 0-9, '-', '_' and '.', beginning with a letter or digit
  hooklatch.toml:4: source[0].consumer: "../etc" cannot be a name; use 1 to 100 of a-z, A-Z, 0-9, '-', '_' and '.', beginning with a letter or digit
  hooklatch.toml:5: source[0].success_status: 500 is no success that a sender understands; write 200, 201, 202 or 204
  hooklatch.toml:11: source[2].name: source[1] is called "shop" too; a name is a path and can be used once
"#);
}

#[test]
fn a_handler_does_one_thing_and_forwards_to_what_there_is() {
    assert_snapshot!(wrong(&format!("{SHOP}
[[source.handler]]
forward = 'crm'
[[source.handler]]
on = ['x']
[[source.handler]]
sql = 'SELECT 1'
forward = 'erp'
[[source.handler]]
sql = 'SELECT id FROM event'
aggregate = '/data/id'
[[destination]]
name = 'erp'
url = 'https://erp.example/in'
")), @r#"
the configuration cannot be used: 4 problems
  hooklatch.toml:8: source[0].handler[0].forward: there is no destination "crm"; there are erp
  hooklatch.toml:9: source[0].handler[1]: it does nothing; add sql = "…" or forward = "DESTINATION"
  hooklatch.toml:11: source[0].handler[2]: it has both sql and forward; write a handler for each, in the order wanted
  hooklatch.toml:16: source[0].handler[3].aggregate: it orders messages, so it stands beside forward; remove it here
"#);
}

#[test]
fn a_destination_that_cannot_work_is_refused_in_words() {
    assert_snapshot!(wrong("
[relay]
lease = '1ms'
[[destination]]
name = 'erp'
url = 'ftp://erp.example/in'
concurrency = 0
timeout = '0s'
permanent_statuses = [422, 500]
headers = { host = 'x', 'a b' = 'y' }
[[destination]]
name = 'erp'
url = 'nowhere'
backoff_first = '1h'
sign = { scheme = 'standard-webhooks' }
"), @r#"
the configuration cannot be used: 11 problems
  hooklatch.toml:3: relay.lease: write a time from 1s to 1h
  hooklatch.toml:6: destination[0].url: "ftp" is no scheme this program delivers to; write https://HOST/PATH, or amqp, nats or kafka
  hooklatch.toml:7: destination[0].concurrency: write a number from 1 to 1024
  hooklatch.toml:8: destination[0].timeout: write a time longer than nothing, up to 1h
  hooklatch.toml:9: destination[0].permanent_statuses: 500 cannot be permanent; write statuses from 400 to 499, and neither 408, 410 nor 429
  hooklatch.toml:10: destination[0].headers.a b: this is not the name of a header
  hooklatch.toml:10: destination[0].headers.host: the relay sets this header itself; remove it
  hooklatch.toml:12: destination[1].name: destination[0] is called "erp" too; give one of them another name
  hooklatch.toml:13: destination[1].url: this is not a URL; write https://HOST/PATH
  hooklatch.toml:14: destination[1].backoff_first: 1h is longer than backoff_longest (15m); shorten it
  hooklatch.toml:15: destination[1].sign: scheme `standard-webhooks` needs at least one secret: secrets = ["env:NAME"]
"#);
}

#[test]
fn sent_messages_outlast_the_keys_of_their_receiver() {
    let told = wrong("[[destination]]\nname = \"crm\"\nurl = \"https://crm.example/\"\nkeys_kept = \"8d\"\n");
    assert!(told.contains("destination[0].keys_kept: this receiver remembers keys for 8d, but sent messages are deleted after 8d"), "{told}");
}

#[test]
fn retention_windows_that_contradict_each_other_are_refused_in_words() {
    assert_snapshot!(wrong(&format!("
[retention]
processed_events = '2d'
idempotency_keys = '3d'
dead_letters = '4d'
outbox_sent = '3d'
{SHOP}
retry_horizon = '7d'
")), @r#"
the configuration cannot be used: 4 problems
  hooklatch.toml:3: retention.processed_events: event keys would be forgotten after 2d while dead letters can be retried for 4d, so a retry could apply an event twice; set processed_events to 4d or more, or dead_letters to 2d or less
  hooklatch.toml:4: retention.idempotency_keys: answers would be kept for 3d but event keys only for 2d, so an event could take effect again while its answer is still replayed; set idempotency_keys to 2d or less, or processed_events to 3d or more
  hooklatch.toml:6: retention.outbox_sent: sent messages would be deleted after 3d, not later than the answers (3d) that tell of them; set outbox_sent to more than 3d
  hooklatch.toml:13: source[0].retry_horizon: this sender retries for 7d, but event keys are forgotten after 2d (retention.processed_events), so a late retry would take effect again; set retention.processed_events to 7d or more
"#);
}

#[test]
fn equal_windows_are_accepted() {
    let config = right(&format!(
        "[retention]\nprocessed_events = '1s'\nidempotency_keys = '1s'\ndead_letters = '1s'\noutbox_sent = '2s'\nprune_every = '1ms'\n{SHOP}\nretry_horizon = '1s'"
    ));
    assert_eq!(config.retention.processed_events, std::time::Duration::from_secs(1));
}

#[test]
fn a_private_listener_that_others_can_reach_needs_a_token_and_an_address_of_its_own() {
    assert_snapshot!(wrong("[http]\nlisten = '0.0.0.0:80'\n[admin]\nlisten = '0.0.0.0:80'"), @r#"
the configuration cannot be used: 2 problems
  hooklatch.toml:3: admin.token: 0.0.0.0:80 can be reached from other machines, so a token is needed; set token = "env:HOOKLATCH_ADMIN_TOKEN", or listen on 127.0.0.1
  hooklatch.toml:4: admin.listen: 0.0.0.0:80 is the public listener's address; give the private one another port
"#);
}

#[test]
fn waits_that_outlast_the_deadline_are_refused() {
    assert_snapshot!(wrong("[inbox]\ndeadline = '1s'\nwriters = 10\nqueue = 0\nmax_batch = 5000\n[log]\nlevel = 'loud'"), @r#"
the configuration cannot be used: 6 problems
  hooklatch.toml:1: inbox.handler_timeout: 5s is not shorter than deadline (1s), so the sender would be told 503 first; shorten it or lengthen deadline
  hooklatch.toml:1: inbox.inflight_wait: 2s is not shorter than deadline (1s), so the sender would be told 503 first; shorten it or lengthen deadline
  hooklatch.toml:3: inbox.writers: each writer holds a connection, and the ledger and the pruner need some too; set database.max_connections to more than 10
  hooklatch.toml:4: inbox.queue: write a number from 1 to 1000000
  hooklatch.toml:5: inbox.max_batch: write a number from 1 to 4096
  hooklatch.toml:7: log.level: "loud" is no level; write error, warn, info, debug or trace, or one a module as in "info,hooklatch::inbox=debug"
"#);
}

#[test]
fn a_secret_that_is_not_there_is_named_with_the_key_that_refers_to_it() {
    assert_snapshot!(wrong("
[admin]
token = 'env:ADMIN_TOKEN'
[database]
url = 'env:DATABASE_URL'
[[source]]
name = 'shop'
verify = { scheme = 'hmac', secrets = ['env:SHOP_SECRET', 'file:/no/such/file'] }
"), @r#"
the configuration cannot be used: 4 problems
  hooklatch.toml:3: admin.token: the environment variable ADMIN_TOKEN is not set; set it, or refer to another with env:NAME or file:PATH
  hooklatch.toml:5: database.url: the environment variable DATABASE_URL is not set; set it, or refer to another with env:NAME or file:PATH
  hooklatch.toml:8: source[0].verify.secrets: the environment variable SHOP_SECRET is not set; set it, or refer to another with env:NAME or file:PATH
  hooklatch.toml:8: source[0].verify.secrets: /no/such/file cannot be read: No such file or directory (os error 2)
"#);
}

#[test]
fn the_environment_overrides_the_file_and_makes_sources() {
    let environment = Environment::from_iter([
        ("HOOKLATCH__DATABASE__URL", "postgres://hook:pass@db/hooks"),
        ("HOOKLATCH__HTTP__MAX_BODY_BYTES", "77"),
        ("HOOKLATCH__RETENTION__PRUNE_EVERY", "5s"),
        ("HOOKLATCH__ADMIN__TOKEN", "12345"),
        ("HOOKLATCH__DATABASE__AUTO_MIGRATE", "true"),
        ("HOOKLATCH__SOURCE__0__NAME", "renamed"),
        ("HOOKLATCH__SOURCE__1__NAME", "added"),
        ("HOOKLATCH__SOURCE__1__VERIFY", "{ scheme = \"none\" }"),
        ("HOOKLATCH_ADMIN_TOKEN", "not a key"),
    ]);
    let config = Config::parse("hooklatch.toml", SHOP, &environment).expect("this must be accepted");
    assert_eq!(config.database.url.expose(), "postgres://hook:pass@db/hooks");
    assert!(config.database.auto_migrate);
    assert_eq!(config.http.max_body_bytes, 77);
    assert_eq!(config.retention.prune_every, std::time::Duration::from_secs(5));
    assert_eq!(config.admin.token, Some(crate::secret::Secret::new("12345")));
    let names: Vec<_> = config.sources.iter().map(|source| source.section.name.as_str()).collect();
    assert_eq!(names, ["renamed", "added"]);
}

#[test]
fn a_variable_that_sets_no_key_is_named() {
    let environment = Environment::from_iter([
        ("HOOKLATCH__DATABASE__URI", "sqlite://x"),
        ("HOOKLATCH__HTTP__WORKERS", "many"),
        ("HOOKLATCH__RETENTIONS__DELIVERIES", "1d"),
        ("HOOKLATCH__INBOX", "3"),
        ("HOOKLATCH__SOURCE__0__SUCCESS_STATUS", "418"),
    ]);
    assert_snapshot!(wrong_in(SHOP, &environment), @r#"
the configuration cannot be used: 4 problems
  HOOKLATCH__DATABASE__URI: database.uri: there is no such key; did you mean `url`?
  HOOKLATCH__HTTP__WORKERS: http.workers: this is a text; write a whole number, not negative
  HOOKLATCH__INBOX: inbox: this is a text; write a table
  HOOKLATCH__RETENTIONS__DELIVERIES: retentions: there is no such key; did you mean `retention`?
"#);
    let environment = Environment::from_iter([("HOOKLATCH__SOURCE__0__SUCCESS_STATUS", "418")]);
    assert_snapshot!(wrong_in(SHOP, &environment), @r#"
the configuration cannot be used
  HOOKLATCH__SOURCE__0__SUCCESS_STATUS: source[0].success_status: 418 is no success that a sender understands; write 200, 201, 202 or 204
"#);
    let environment = Environment::from_iter([
        ("HOOKLATCH__SOURCE__3__NAME", "x"),
        ("HOOKLATCH__", "x"),
        ("HOOKLATCH__SOURCE__NAME", "x"),
    ]);
    assert_snapshot!(wrong_in(SHOP, &environment), @r#"
the configuration cannot be used: 3 problems
  HOOKLATCH__: this names no key; a key is written HOOKLATCH__SECTION__KEY
  HOOKLATCH__SOURCE__3__NAME: `source` has 1 items; the next one is number 1
  HOOKLATCH__SOURCE__NAME: `source` is a list; name the item by its number, as in SOURCE__0
"#);
}

#[test]
fn secrets_are_read_from_files_without_the_newline_at_the_end() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("token");
    std::fs::write(&path, "s3cret \r\n").expect("written");
    let config = right(&format!("[admin]\ntoken = 'file:{}'\n", path.display()));
    assert_eq!(config.admin.token, Some(crate::secret::Secret::new("s3cret ")));
}

#[test]
fn no_password_and_no_secret_is_in_debug_or_in_a_message() {
    let environment = Environment::from_iter([("A", "variable-secret")]);
    let text = "
[admin]
token = 'literal-secret'
[database]
url = 'postgres://user:pass-secret@db.example/hooks?password=query-secret'
[[source]]
name = 'shop'
verify = { scheme = 'hmac', header = 'x-signature', secrets = ['env:A', 'source-secret'] }
";
    let config = Config::parse("hooklatch.toml", text, &environment).expect("accepted");
    let shown = format!("{config:#?}");
    assert!(!shown.contains("-secret"), "{shown}");
    assert_eq!(config.database.url.to_string(), "postgres://db.example/hooks");
    let warnings: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    assert_snapshot!(warnings.join("\n"), @r#"
hooklatch.toml:3: admin.token: the secret stands in the configuration; write env:NAME or file:PATH
hooklatch.toml:5: database.url: the password stands in the configuration; write the URL as env:NAME or file:PATH
hooklatch.toml:8: source[0].verify.secrets: the secret stands in the configuration; write env:NAME or file:PATH
"#);

    for url in ["mysql://u:pass-secret@h/d", "pass-secret", "u:pass-secret@h"] {
        let message = wrong(&format!("[database]\nurl = '{url}'"));
        assert!(!message.contains("pass-secret"), "{message}");
    }
    for url in ["postgres://u:pa?ss@word-secret@h/d", "postgres://u:p@secret@h/d?options=a"] {
        let url = DatabaseUrl::parse(crate::secret::Secret::new(url)).expect("a PostgreSQL URL");
        assert!(!url.to_string().contains("secret"), "{url}");
    }
}

#[test]
fn the_dialect_decides_whether_migrations_are_applied_unless_the_operator_does() {
    assert!(right("").database.auto_migrate);
    assert!(!right("[database]\nurl = 'postgresql://h/d'").database.auto_migrate);
    assert!(!right("[database]\nauto_migrate = false").database.auto_migrate);
}

mod documented {
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
}

mod brokers {
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
        let no_stream =
            "kind = 'nats'\nurl = 'nats://localhost'\nqueue = 'q'\nprefetch = 0\nmax_attempts = 0";
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
        let queue = "kind = 'amqp'\nurl = 'amqp://localhost'\nqueue = 'q'\nstream = 's'\nverify = { scheme = 'none' }";
        names(
            &source(queue),
            &["source[0].stream: this belongs to", "source[0].verify: messages of a queue"],
        );
        names(
            &source("kind = 'amqp'\nurl = 'nats://localhost'\nqueue = 'q'"),
            &["no URL of the source's kind"],
        );
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
        let config =
            Config::parse("hooklatch.toml", &written, &Environment::default()).expect("it can be used");
        assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
        assert!(!format!("{config:?}").contains("s3cret"));
        let queue = config.queues().next().expect("a queue");
        assert_eq!((queue.queue.as_str(), queue.prefetch, queue.max_attempts), ("q", 256, 20));
    }
}
