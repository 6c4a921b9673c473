//! Payments and shops.

use super::*;

pub(super) static PRESETS: [Preset; 7] = [
    Preset {
        // The whole `whsec_…` is the key. v0 stands beside v1 in test mode and proves nothing.
        scheme: "stripe",
        sender: "Stripe",
        way: Way::Header(Knobs {
            header: "stripe-signature",
            separator: Some(","),
            signature_field: Some("v1"),
            timestamp: Some(TimestampKnob::Field("t")),
            signed: "{timestamp}.{body}",
            decoy_field: Some("v0"),
            ..BODY
        }),
        envelope: EnvelopePreset { event_time: Some("/created"), ..EnvelopePreset::USUAL },
        retry_horizon: days(3),
        ..SENDER
    },
    Preset {
        scheme: "paypal",
        sender: "PayPal",
        way: Way::PayPal,
        envelope: EnvelopePreset {
            event_type: &["/event_type"],
            event_time: Some("/create_time"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: days(3),
        ..SENDER
    },
    Preset {
        // success is part of the id: an authorisation may fail and then succeed.
        scheme: "adyen",
        sender: "Adyen",
        way: Way::Adyen,
        envelope: EnvelopePreset {
            event_id: &[
                "/NotificationRequestItem/pspReference",
                "/NotificationRequestItem/eventCode",
                "/NotificationRequestItem/success",
            ],
            event_type: &["/NotificationRequestItem/eventCode"],
            event_time: Some("/NotificationRequestItem/eventDate"),
            items: Some("/notificationItems"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: days(30),
        ..SENDER
    },
    Preset {
        scheme: "square",
        sender: "Square",
        way: Way::Header(Knobs {
            header: "x-square-hmacsha256-signature",
            encoding: Encoding::Base64,
            signed: "{url}{body}",
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["/event_id"],
            event_time: Some("/created_at"),
            ..EnvelopePreset::USUAL
        },
        // Copies of the documentation say 24 and 72 hours.
        retry_horizon: hours(72),
        ..SENDER
    },
    Preset {
        // The library accepts five seconds and any future; ours ends five minutes ahead.
        scheme: "paddle",
        sender: "Paddle Billing",
        way: Way::Header(Knobs {
            header: "paddle-signature",
            separator: Some(";"),
            signature_field: Some("h1"),
            timestamp: Some(TimestampKnob::Field("ts")),
            past: Some(Duration::from_secs(5)),
            signed: "{timestamp}:{body}",
            ..BODY
        }),
        envelope: EnvelopePreset {
            event_id: &["/event_id"],
            event_type: &["/event_type"],
            event_time: Some("/occurred_at"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: days(3),
        ..SENDER
    },
    Preset {
        scheme: "shopify",
        sender: "Shopify",
        way: Way::Header(Knobs { header: "x-shopify-hmac-sha256", encoding: Encoding::Base64, ..BODY }),
        envelope: EnvelopePreset {
            event_id: &["header:x-shopify-webhook-id | header:shopify-webhook-id"],
            event_type: &["header:x-shopify-topic | header:shopify-topic"],
            event_time: Some("header:x-shopify-triggered-at"),
            ..EnvelopePreset::USUAL
        },
        retry_horizon: hours(4),
        ..SENDER
    },
    Preset {
        scheme: "woocommerce",
        sender: "WooCommerce",
        way: Way::Header(Knobs { header: "x-wc-webhook-signature", encoding: Encoding::Base64, ..BODY }),
        envelope: EnvelopePreset {
            event_id: &["header:x-wc-webhook-delivery-id"],
            event_type: &["header:x-wc-webhook-topic"],
            form_as_object: true,
            ..EnvelopePreset::USUAL
        },
        ..SENDER
    },
];
