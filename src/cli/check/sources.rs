//! What `check` says of each source: is it verified, does our memory outlast its retries and what others captured?

use crate::config::duration::show;
use crate::config::{Config, SourceConfig};
use crate::envelope::Locator;
use crate::signature::HandshakeKind;
use crate::source::ReplayGuard;

use super::{Findings, Verdict};

pub(super) fn about(config: &Config, findings: &mut Findings) {
    if config.sources.is_empty() {
        findings.say(
            Verdict::Look,
            "sources",
            "there is none; every delivery would be answered 404. Add a [[source]]",
        );
    }
    for source in &config.sources {
        let section = &source.section;
        let about = format!("source {}", section.name);
        if source.queue.is_none() && source.source.verifier.scheme() == "none" {
            findings.say(
                Verdict::Look,
                &about,
                "deliveries are not verified: whoever reaches the port can send events",
            );
        }
        if section.handler.is_empty() {
            findings.say(
                Verdict::Look,
                &about,
                "it has no [[source.handler]]: every event is recorded and ignored",
            );
        }
        about_retries(config, source, &about, findings);
        about_replays(config, source, &about, findings);
        let verifier = &source.source.verifier;
        if verifier.handshake_kind() == HandshakeKind::Meta
            && section.verify.as_ref().is_some_and(|verify| verify.handshake_token.is_none())
        {
            findings.say(
                Verdict::Look,
                &about,
                "there is no verify.handshake_token, so the sender's question whether the address is ours is not answered",
            );
        }
    }
}

/// Does the memory of events outlast the sender's retries?
fn about_retries(config: &Config, source: &SourceConfig, about: &str, findings: &mut Findings) {
    let remembered = show(config.retention.processed_events);
    let known =
        source.section.retry_horizon.or_else(|| source.section.verify.as_ref()?.preset()?.retry_horizon);
    let what = match known {
        // A shorter memory is an error of the configuration.
        Some(horizon) => {
            format!("event keys are remembered for {remembered}, the sender retries for {}", show(horizon))
        }
        None => format!(
            "event keys are remembered for {remembered}; how long the sender retries is not known, retry_horizon says it"
        ),
    };
    findings.say(Verdict::Good, about, &what);
}

/// What can whoever captured a delivery do with it?
fn about_replays(config: &Config, source: &SourceConfig, about: &str, findings: &mut Findings) {
    let (verifier, envelope) = (&source.source.verifier, &source.source.envelope);
    if !verifier.signs_body() {
        return;
    }
    let remembered = config.retention.processed_events;
    let window = verifier.replay_window();
    let how_long = window.map_or_else(|| "for ever".to_owned(), |window| format!("for {}", show(window)));
    let unsigned = |place: &Locator| place.headers().iter().any(|name| !verifier.signs_header(name));
    let tells_age = envelope.event_time.as_ref().is_some_and(|place| !unsigned(place));
    match window {
        Some(window) if remembered < window => findings.say(Verdict::Look, about, &format!(
            "a captured delivery verifies {how_long}, longer than event keys are remembered; lengthen retention.processed_events"
        )),
        None if !tells_age => findings.say(Verdict::Look, about, &format!(
            "a captured delivery verifies {how_long}, but event keys are forgotten after {}, and then it would take effect again; name an event_time that is signed, and older events are not applied, or lengthen retention.processed_events",
            show(remembered),
        )),
        _ => {}
    }
    if let Some(place) = envelope.event_id.as_slice().iter().find(|place| unsigned(place))
        && source.section.replay_guard == ReplayGuard::None
    {
        findings.say(Verdict::Look, about, &format!(
            "the event id is in {place}, which is not signed: a captured delivery can be sent again under another id, {how_long}; replay_guard = \"body\" lets each body take effect once, event_id with places in the body is better still"
        ));
    }
}
