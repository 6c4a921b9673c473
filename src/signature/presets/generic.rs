//! Standards, and gateways that send on behalf of others.

use super::*;

pub(super) static PRESETS: [Preset; 5] = [
    Preset {
        // https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
        scheme: "standard-webhooks",
        sender: "Standard Webhooks",
        way: Way::Header(STANDARD_WEBHOOKS),
        envelope: EnvelopePreset { event_id: &["header:webhook-id"], ..EnvelopePreset::USUAL },
        // The example schedule of the specification: 75.6 hours.
        retry_horizon: hours(76),
        contract: Contract::COUNTS_ATTEMPTS,
        ..SENDER
    },
    Preset {
        scheme: "svix",
        sender: "Svix",
        way: Way::Header(Knobs {
            header: "svix-signature",
            timestamp: Some(TimestampKnob::Header("svix-timestamp")),
            id_header: Some("svix-id"),
            other_names: Some(("svix-", "webhook-")),
            ..STANDARD_WEBHOOKS
        }),
        envelope: EnvelopePreset {
            event_id: &["header:svix-id | header:webhook-id"],
            ..EnvelopePreset::USUAL
        },
        // 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h.
        retry_horizon: hours(28),
        contract: Contract::COUNTS_ATTEMPTS,
        ..SENDER
    },
    Preset {
        scheme: "hookdeck",
        sender: "Hookdeck",
        way: Way::Header(Knobs { header: "x-hookdeck-signature", encoding: Encoding::Base64, ..BODY }),
        envelope: EnvelopePreset { event_id: &["header:x-hookdeck-eventid"], ..EnvelopePreset::USUAL },
        ..SENDER
    },
    Preset {
        scheme: "convoy",
        sender: "Convoy",
        way: Way::Header(Knobs { header: "x-convoy-signature", kind: Kind::Hmac(Hash::Sha512), ..BODY }),
        envelope: EnvelopePreset { event_id: &["/id | digest"], ..EnvelopePreset::USUAL },
        ..SENDER
    },
    Preset {
        // https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md
        scheme: "cloudevents",
        sender: "CloudEvents (web hook)",
        way: Way::Token(TokenPlace::BearerOrQuery("access_token")),
        envelope: EnvelopePreset {
            event_id: &["header:ce-source | /source", "header:ce-id | /id"],
            event_type: &["header:ce-type | /type"],
            event_time: Some("header:ce-time | /time"),
            list_or_one: true,
            ..EnvelopePreset::USUAL
        },
        contract: Contract { success: &[200, 201, 202, 204], ..Contract::USUAL },
        handshake: HandshakeKind::CloudEvents,
        ..SENDER
    },
];
