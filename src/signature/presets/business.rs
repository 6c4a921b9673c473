//! Customers, books, forms, calendars, files.

use super::*;

/// A batch of `HubSpot`.
const HUBSPOT: Preset = Preset {
    sender: "HubSpot",
    envelope: EnvelopePreset {
        event_id: &["/eventId"],
        event_type: &["/subscriptionType"],
        event_time: Some("/occurredAt"),
        items: Some(""),
        ..EnvelopePreset::USUAL
    },
    retry_horizon: hours(24),
    ..SENDER
};

pub(super) static PRESETS: [Preset; 10] = [
    Preset {
        scheme: "hubspot",
        sender: "HubSpot (v3 signature)",
        way: Way::Header(Knobs {
            header: "x-hubspot-signature-v3",
            encoding: Encoding::Base64,
            timestamp: Some(TimestampKnob::Header("x-hubspot-request-timestamp")),
            timestamp_unit: TimestampUnit::Milliseconds,
            signed: "{method}{url}{body}{timestamp}",
            ..BODY
        }),
        ..HUBSPOT
    },
    Preset {
        scheme: "hubspot-v2",
        sender: "HubSpot (v2 signature)",
        way: Way::Header(Knobs {
            header: "x-hubspot-signature",
            kind: Kind::Hash(Hash::Sha256),
            signed: "{secret}{method}{url}{body}",
            ..BODY
        }),
        ..HUBSPOT
    },
    Preset {
        scheme: "hubspot-v1",
        sender: "HubSpot (v1 signature)",
        way: Way::Header(Knobs {
            header: "x-hubspot-signature",
            kind: Kind::Hash(Hash::Sha256),
            signed: "{secret}{body}",
            ..BODY
        }),
        ..HUBSPOT
    },
    Preset {
        scheme: "zendesk",
        sender: "Zendesk",
        way: Way::Header(Knobs {
            header: "x-zendesk-webhook-signature",
            encoding: Encoding::Base64,
            timestamp: Some(TimestampKnob::Header("x-zendesk-webhook-signature-timestamp")),
            timestamp_unit: TimestampUnit::Rfc3339,
            past: None,
            future: None,
            signed: "{timestamp}{body}",
            ..BODY
        }),
        // Webhooks of triggers have a body of the customer's own making.
        envelope: EnvelopePreset {
            event_id: &["/id | header:x-zendesk-webhook-invocation-id | digest"],
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        // Its probe ("intent to receive") wants 200 for a good signature and 401 for a bad one.
        scheme: "xero",
        sender: "Xero",
        way: Way::Header(Knobs { header: "x-xero-signature", encoding: Encoding::Base64, ..BODY }),
        envelope: EnvelopePreset {
            event_id: &["/resourceId", "/eventDateUtc"],
            event_type: &["/eventCategory", "/eventType"],
            items: Some("/events"),
            ..EnvelopePreset::USUAL
        },
        contract: Contract { success: &[200], bodiless: true, ..Contract::USUAL },
        handshake: HandshakeKind::Xero,
        ..SENDER
    },
    Preset {
        // A delivery only says whose files changed: nothing tells a repeated one from a new one.
        scheme: "dropbox",
        sender: "Dropbox",
        way: Way::Header(Knobs { header: "x-dropbox-signature", ..BODY }),
        envelope: EnvelopePreset { event_id: &["delivery"], event_type: &[], ..EnvelopePreset::USUAL },
        handshake: HandshakeKind::Dropbox,
        ..SENDER
    },
    Preset {
        scheme: "typeform",
        sender: "Typeform",
        way: Way::Header(Knobs {
            header: "typeform-signature",
            prefix: "sha256=",
            encoding: Encoding::Base64,
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["/event_id"],
            event_type: &["/event_type"],
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        // One invitee is created and cancelled under one URI, so the kind is part of the id.
        scheme: "calendly",
        sender: "Calendly",
        way: Way::Header(Knobs {
            header: "calendly-webhook-signature",
            separator: Some(","),
            signature_field: Some("v1"),
            timestamp: Some(TimestampKnob::Field("t")),
            signed: "{timestamp}.{body}",
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["/event", "/payload/uri"],
            event_type: &["/event"],
            event_time: Some("/created_at"),
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
    Preset {
        scheme: "intercom",
        sender: "Intercom",
        way: Way::Header(Knobs {
            header: "x-hub-signature",
            prefix: "sha1=",
            kind: Kind::Hmac(Hash::Sha1),
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_type: &["/topic"],
            event_time: Some("/created_at"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(1),
        ..SENDER
    },
    Preset {
        scheme: "greenhouse",
        sender: "Greenhouse",
        way: Way::Header(Knobs { header: "signature", prefix: "sha256 ", ..BODY }),
        envelope: EnvelopePreset {
            event_id: &["header:greenhouse-event-id | digest"],
            event_type: &["/action"],
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
];
