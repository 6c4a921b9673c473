//! What `check` says of the database: is it there, is its schema ours, does it accept the handlers?

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::app::would_make_database;
use crate::config::Config;
use crate::handler::Step;
use crate::lifecycle::{SchemaError, prepare_schema};

use super::super::config_file::ConfigFile;
use super::super::failure::causes;
use super::super::workplace::Workplace;
use super::{Findings, Verdict};

/// How far our clock may be from the database's before somebody should look. Signatures are judged
/// by our clock, expiry by the database's.
const CLOCKS_MAY_DIFFER: Duration = Duration::from_secs(1);
/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why handlers are not checked, most often.
const MIGRATIONS_MISSING: &str = "migrations are missing";

pub(super) async fn about(file: &ConfigFile, config: &Config, findings: &mut Findings) {
    if would_make_database(&config.database) {
        return about_missing_file(config, findings);
    }
    match tokio::time::timeout(PATIENCE, Workplace::open_or_make(file)).await {
        Ok(Ok(place)) => {
            about_schema(&place, findings).await;
            place.store.close().await;
        }
        Ok(Err(failure)) => findings.say(Verdict::Bad, "database", &failure.to_string()),
        Err(_) => findings.say(Verdict::Bad, "database", &no_answer(config)),
    }
}

fn about_missing_file(config: &Config, findings: &mut Findings) {
    let url = &config.database.url;
    if config.database.auto_migrate {
        let what = format!("{url} is not there yet; `serve` will create it, and so will `migrate`");
        findings.say(Verdict::Look, "database", &what);
    } else {
        let what = format!("{url} is not there yet; run `hooklatch migrate`, which creates it");
        findings.say(Verdict::Bad, "database", &what);
    }
    handlers_not_checked(config, "there is no database yet", findings);
}

async fn about_schema(place: &Workplace, findings: &mut Findings) {
    let store = &*place.store;
    let url = place.config.database.url.to_string();
    let asked = place.clock.now();
    match tokio::time::timeout(PATIENCE, store.now()).await {
        Ok(Ok(theirs)) => {
            findings.say(Verdict::Good, "database", &format!("{url} answers"));
            about_clocks(asked, theirs, place.clock.now(), findings);
        }
        Ok(Err(error)) => {
            return findings.say(Verdict::Bad, "database", &format!("{url}: {}", causes(&error)));
        }
        Err(_) => return findings.say(Verdict::Bad, "database", &no_answer(&place.config)),
    }
    match prepare_schema(store, false).await {
        Ok(()) => findings.say(Verdict::Good, "migrations", "all are applied"),
        Err(SchemaError::Pending(names)) if place.config.database.auto_migrate => {
            let what = format!("{} are missing; `serve` will apply them", names.len());
            findings.say(Verdict::Look, "migrations", &what);
            return handlers_not_checked(&place.config, MIGRATIONS_MISSING, findings);
        }
        Err(error) => {
            findings.say(Verdict::Bad, "migrations", &causes(&error));
            let why = match error {
                SchemaError::Pending(_) => MIGRATIONS_MISSING,
                SchemaError::Newer(_) => "the database is newer than this program",
                SchemaError::Store(_) => "the database's schema could not be read",
            };
            return handlers_not_checked(&place.config, why, findings);
        }
    }
    about_handlers(place, findings).await;
}

fn about_clocks(
    asked: DateTime<Utc>,
    theirs: DateTime<Utc>,
    answered: DateTime<Utc>,
    findings: &mut Findings,
) {
    // Their reading was taken somewhere between our two.
    let difference = if theirs < asked {
        asked - theirs
    } else if theirs > answered {
        theirs - answered
    } else {
        chrono::TimeDelta::zero()
    };
    let milliseconds = difference.num_milliseconds();
    if difference.to_std().is_ok_and(|difference| difference <= CLOCKS_MAY_DIFFER) {
        findings.say(
            Verdict::Good,
            "clocks",
            &format!("this machine and the database differ by {milliseconds} ms"),
        );
    } else {
        findings.say(Verdict::Look, "clocks", &format!(
            "this machine and the database differ by {milliseconds} ms; synchronise them, signatures are judged by this clock"
        ));
    }
}

async fn about_handlers(place: &Workplace, findings: &mut Findings) {
    for source in place.config.run_time_sources() {
        for (number, binding) in source.handlers.iter().enumerate() {
            let Step::Sql(handler) = &binding.step else { continue };
            let about = format!("source {} handler {}", source.name, number + 1);
            match place.store.check_handler(handler).await {
                Ok(()) => findings.say(Verdict::Good, &about, "the database accepts the statement"),
                Err(error) => findings.say(Verdict::Bad, &about, &causes(&error)),
            }
        }
    }
}

/// They may use our tables and functions, so without these nothing could be said of them.
fn handlers_not_checked(config: &Config, why: &str, findings: &mut Findings) {
    let sources = config.run_time_sources();
    let handlers = sources.iter().flat_map(|source| &source.handlers);
    let count = handlers.filter(|binding| matches!(binding.step, Step::Sql(_))).count();
    if count > 0 {
        let what = format!(
            "NOT CHECKED, because {why}: {count} with sql; run `hooklatch check` again when the schema is there"
        );
        findings.say(Verdict::Look, "handlers", &what);
    }
}

fn no_answer(config: &Config) -> String {
    format!(
        "{} did not answer within {} s; check host, port and firewall, or database.url",
        config.database.url,
        PATIENCE.as_secs()
    )
}
