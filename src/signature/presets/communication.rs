//! Chat, mail, telephony, streaming.

use super::*;

/// The signature of `GitHub`, which Meta took over.
pub(super) const HUB_SIGNATURE: Knobs<'static> =
    Knobs { header: "x-hub-signature-256", prefix: "sha256=", ..BODY };

pub(super) static PRESETS: [Preset; 10] = [
    Preset {
        scheme: "slack",
        sender: "Slack",
        way: Way::Header(Knobs {
            header: "x-slack-signature",
            prefix: "v0=",
            timestamp: Some(TimestampKnob::Header("x-slack-request-timestamp")),
            signed: "v0:{timestamp}:{body}",
            ..BODY
        }),
        // Slash commands are forms and have no event id.
        envelope: EnvelopePreset {
            event_id: &["/event_id | /trigger_id"],
            event_type: &["/event/type | /command | /type"],
            event_time: Some("/event_time"),
            form_as_object: true,
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(1),
        contract: Contract { stop_retrying: Some(("x-slack-no-retry", "1")), ..Contract::USUAL },
        handshake: HandshakeKind::Slack,
    },
    Preset {
        scheme: "twilio",
        sender: "Twilio (voice and messages)",
        way: Way::Twilio,
        envelope: EnvelopePreset {
            event_id: &["header:i-twilio-idempotency-token | digest"],
            event_type: &["/MessageStatus | /CallStatus | /SmsStatus"],
            form_as_object: true,
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        scheme: "sendgrid",
        sender: "SendGrid event webhook",
        way: Way::Header(Knobs {
            header: "x-twilio-email-event-webhook-signature",
            kind: Kind::Public(PublicAlgorithm::EcdsaP256),
            encoding: Encoding::Base64,
            timestamp: Some(TimestampKnob::Header("x-twilio-email-event-webhook-timestamp")),
            past: None,
            future: None,
            signed: "{timestamp}{body}",
            ..BODY
        }),
        // Some unsubscribe events have no id.
        envelope: EnvelopePreset {
            event_id: &["/sg_event_id | digest"],
            event_type: &["/event"],
            event_time: Some("/timestamp"),
            items: Some(""),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(24),
        ..SENDER
    },
    Preset {
        scheme: "mailgun",
        sender: "Mailgun",
        way: Way::Mailgun,
        envelope: EnvelopePreset {
            event_id: &["/event-data/id"],
            event_type: &["/event-data/event"],
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(16),
        // 406 stops retries, everything else but 200 does not.
        contract: Contract { success: &[200], rejection: 406, ..Contract::USUAL },
        ..SENDER
    },
    Preset {
        scheme: "postmark",
        sender: "Postmark",
        way: Way::Token(TokenPlace::Basic),
        // One message is opened and clicked more than once, so its time is part of the id.
        envelope: EnvelopePreset {
            event_id: &[
                "/MessageID",
                "/RecordType | digest",
                "/ReceivedAt | /DeliveredAt | /BouncedAt | /ChangedAt | digest",
            ],
            event_type: &["/RecordType"],
            ..EnvelopePreset::USUAL
        },
        contract: Contract { success: &[200], rejection: 403, ..Contract::USUAL },
        ..SENDER
    },
    Preset {
        scheme: "zoom",
        sender: "Zoom",
        way: Way::Header(Knobs {
            header: "x-zm-signature",
            prefix: "v0=",
            timestamp: Some(TimestampKnob::Header("x-zm-request-timestamp")),
            past: None,
            future: None,
            signed: "v0:{timestamp}:{body}",
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["digest"],
            event_type: &["/event"],
            event_time: Some("/event_ts"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(2),
        contract: Contract { success: &[200, 204], ..Contract::USUAL },
        handshake: HandshakeKind::Zoom,
    },
    Preset {
        // A bad signature must be answered 401: Discord tries, and removes an address that accepts.
        scheme: "discord",
        sender: "Discord",
        way: Way::Header(Knobs {
            header: "x-signature-ed25519",
            kind: Kind::Public(PublicAlgorithm::Ed25519),
            timestamp: Some(TimestampKnob::Header("x-signature-timestamp")),
            past: None,
            future: None,
            signed: "{timestamp}{body}",
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["/id | digest"],
            event_type: &["/event/type | /type"],
            ..EnvelopePreset::USUAL
        },
        handshake: HandshakeKind::Discord,
        ..SENDER
    },
    Preset {
        scheme: "telegram",
        sender: "Telegram bots",
        way: Way::Token(TokenPlace::Header { name: "x-telegram-bot-api-secret-token", prefix: "" }),
        envelope: EnvelopePreset { event_id: &["/update_id"], event_type: &[], ..EnvelopePreset::USUAL },
        retry_horizon: hours(24),
        ..SENDER
    },
    Preset {
        scheme: "twitch",
        sender: "Twitch EventSub",
        way: Way::Header(Knobs {
            header: "twitch-eventsub-message-signature",
            prefix: "sha256=",
            timestamp: Some(TimestampKnob::Header("twitch-eventsub-message-timestamp")),
            timestamp_unit: TimestampUnit::Rfc3339,
            past: Some(Duration::from_mins(10)),
            future: Some(Duration::from_mins(10)),
            id_header: Some("twitch-eventsub-message-id"),
            signed: "{id}{timestamp}{body}",
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["header:twitch-eventsub-message-id"],
            event_type: &["/subscription/type"],
            event_time: Some("header:twitch-eventsub-message-timestamp"),
            ..EnvelopePreset::USUAL
        },
        handshake: HandshakeKind::Twitch,
        ..SENDER
    },
    Preset {
        // An entry's own id is that of the page or account, not of the event.
        scheme: "meta",
        sender: "Meta (Facebook, Instagram, WhatsApp)",
        way: Way::Header(HUB_SIGNATURE),
        envelope: EnvelopePreset {
            event_id: &["digest"],
            event_type: &["/changes/0/field"],
            items: Some("/entry"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(36),
        handshake: HandshakeKind::Meta,
        ..SENDER
    },
];
