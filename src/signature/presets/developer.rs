//! Code hosting, hosting, content.

use super::communication::HUB_SIGNATURE;
use super::*;

pub(super) static PRESETS: [Preset; 7] = [
    Preset {
        // The id stands in a header that is not signed. GitHub never sends again by itself.
        scheme: "github",
        sender: "GitHub",
        way: Way::Header(HUB_SIGNATURE),
        envelope: EnvelopePreset {
            event_id: &["header:x-github-delivery"],
            event_type: &["header:x-github-event"],
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        scheme: "gitlab",
        sender: "GitLab",
        way: Way::Token(TokenPlace::Header { name: "x-gitlab-token", prefix: "" }),
        envelope: EnvelopePreset {
            event_id: &["header:idempotency-key | header:x-gitlab-event-uuid"],
            event_type: &["/object_kind | /event_name"],
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        // `webhookId` in the body is the subscription, not the event.
        scheme: "linear",
        sender: "Linear",
        way: Way::Header(Knobs {
            header: "linear-signature",
            timestamp: Some(TimestampKnob::Body("/webhookTimestamp")),
            timestamp_unit: TimestampUnit::Milliseconds,
            past: Some(Duration::from_mins(1)),
            future: Some(Duration::from_mins(1)),
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["header:linear-delivery"],
            event_type: &["/type", "/action"],
            event_time: Some("/createdAt"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(8),
        ..SENDER
    },
    Preset {
        scheme: "vercel",
        sender: "Vercel",
        way: Way::Header(Knobs { header: "x-vercel-signature", kind: Kind::Hmac(Hash::Sha1), ..BODY }),
        envelope: EnvelopePreset { event_time: Some("/createdAt"), ..EnvelopePreset::USUAL },
        ..SENDER
    },
    Preset {
        scheme: "heroku",
        sender: "Heroku",
        way: Way::Header(Knobs { header: "heroku-webhook-hmac-sha256", encoding: Encoding::Base64, ..BODY }),
        envelope: EnvelopePreset {
            event_id: &["/webhook_metadata/event/id"],
            event_type: &["/webhook_metadata/event/include", "/action"],
            event_time: Some("/created_at"),
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        scheme: "webflow",
        sender: "Webflow",
        way: Way::Header(Knobs {
            header: "x-webflow-signature",
            timestamp: Some(TimestampKnob::Header("x-webflow-timestamp")),
            timestamp_unit: TimestampUnit::Milliseconds,
            signed: "{timestamp}:{body}",
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["digest"],
            event_type: &["/triggerType"],
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        scheme: "hygraph",
        sender: "Hygraph",
        way: Way::Header(Knobs {
            header: "gcms-signature",
            encoding: Encoding::Base64,
            separator: Some(","),
            signature_field: Some("sign"),
            timestamp: Some(TimestampKnob::Field("t")),
            timestamp_unit: TimestampUnit::Milliseconds,
            signed: r#"{{"Body":{json:body},"EnvironmentName":"{field:env}","TimeStamp":{timestamp}}}"#,
            sent_fields: &[("env", "master")],
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["digest"],
            event_type: &["/operation"],
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
];
