//! Adyen: a signature inside each item of a standard notification, over eight of its values.
//!
//! Other notifications (banking, management) carry the signature of the whole body in a header,
//! made with the same key. Every item must be signed: one that is not refuses the delivery. Only
//! the eight values are protected by an item's signature; the rest of the item is not.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Verified;
use super::config::{Encoding, Hash, SecretEncoding, VerifyConfigError};
use super::json;
use super::key::{self, Dated};
use super::mac::{Mac, Tag};
use super::reading::single;
use super::refusal::{Refusal, SignError};
use crate::envelope::MAX_EVENTS_PER_DELIVERY;
use crate::event::RawRequest;
use crate::json_scan::{JsonKind, JsonStr};

/// The header of notifications whose whole body is signed.
const HEADER: &str = "hmacsignature";
const ITEMS: &str = "/notificationItems";
const ITEM: &str = "/NotificationRequestItem";
const SIGNATURE: &str = "/additionalData/hmacSignature";

/// What an item's signature is over, joined by colons; what is absent is empty, nothing is escaped.
const SIGNED: [&str; 8] = [
    "/pspReference",
    "/originalReference",
    "/merchantAccountCode",
    "/merchantReference",
    "/amount/value",
    "/amount/currency",
    "/eventCode",
    "/success",
];

#[derive(Clone)]
pub(super) struct AdyenScheme {
    keys: Vec<(Mac, Option<DateTime<Utc>>)>,
}

impl AdyenScheme {
    pub(super) fn new(scheme: &'static str, secrets: &[Dated]) -> Result<Self, VerifyConfigError> {
        let keys = key::each(scheme, secrets, |dated| {
            let key = key::decode(&dated.secret, SecretEncoding::Hex, "")?;
            Ok((Mac::keyed(Hash::Sha256, &key), dated.not_after))
        })?;
        Ok(Self { keys })
    }

    pub(super) fn secret_count(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn verify(&self, request: &RawRequest, now: DateTime<Utc>) -> Result<Verified, Refusal> {
        if request.headers.contains(HEADER) {
            let text = single(request, HEADER)?;
            let sent = decode(text)
                .map_err(|problem| Refusal::MalformedHeader { header: HEADER.to_owned(), problem })?;
            let index = self.matching(&[&request.body], &sent, now)?;
            let no_match = Refusal::NoMatch { secrets: self.keys.len(), signatures: 1 };
            return Ok(Verified { secret_index: Some(index.ok_or(no_match)?), timestamp: None });
        }
        self.verify_items(&request.body, now)
    }

    fn verify_items(&self, body: &[u8], now: DateTime<Utc>) -> Result<Verified, Refusal> {
        let unreadable = |problem| Refusal::UnreadableBody { problem };
        let root = json::root(body).map_err(unreadable)?;
        let items = json::at(root, ITEMS).filter(|items| items.kind() == JsonKind::Array);
        let items =
            items.ok_or(unreadable("it has no list of notificationItems, and no hmacSignature header"))?;
        let mut first = None;
        for (number, item) in items.elements().enumerate() {
            if number == MAX_EVENTS_PER_DELIVERY {
                return Err(unreadable("it has more items than one delivery may carry"));
            }
            let item = json::at(item, ITEM).ok_or(unreadable("an item has no NotificationRequestItem"))?;
            let sent = json::text_at(item, SIGNATURE).ok_or(unreadable("an item has no hmacSignature"))?;
            let sent = decode(&sent).map_err(unreadable)?;
            let values = signed_values(item).map_err(unreadable)?;
            let index = self
                .matching(&[values.as_bytes()], &sent, now)?
                .ok_or(Refusal::ItemDiffers { item: number + 1, secrets: self.keys.len() })?;
            first.get_or_insert(index);
        }
        let secret_index = first.ok_or(unreadable("it has no item, so nothing of it is signed"))?;
        Ok(Verified { secret_index: Some(secret_index), timestamp: None })
    }

    /// Which key made the signature, if any.
    fn matching(&self, parts: &[&[u8]], sent: &Tag, now: DateTime<Utc>) -> Result<Option<usize>, Refusal> {
        let mut expired = None;
        for (index, (mac, not_after)) in self.keys.iter().enumerate() {
            if !mac.over(parts.iter().copied()).matches(sent) {
                continue;
            }
            match not_after {
                Some(not_after) if now > *not_after => {
                    expired
                        .get_or_insert(Refusal::ExpiredSecret { number: index + 1, not_after: *not_after });
                }
                _ => return Ok(Some(index)),
            }
        }
        expired.map_or(Ok(None), Err)
    }

    /// The body with a signature in each item.
    pub(super) fn sign(&self, body: &[u8], now: DateTime<Utc>) -> Result<Vec<u8>, SignError> {
        let unfit = |problem| SignError::UnfitBody { problem };
        let mut usable = self.keys.iter().filter(|(_, not_after)| !key::is_over(*not_after, now));
        let (mac, _) = usable.next().ok_or(SignError::AllExpired)?;
        let mut root: Value = serde_json::from_slice(body).map_err(|_| unfit("it is not JSON"))?;
        let items = root.pointer_mut(ITEMS).and_then(Value::as_array_mut);
        let items = items.ok_or(unfit("it has no list of notificationItems"))?;
        for item in items {
            let item = item.pointer_mut(ITEM).and_then(Value::as_object_mut);
            let item = item.ok_or(unfit("an item has no NotificationRequestItem"))?;
            let text = Value::Object(item.clone()).to_string();
            let values = JsonStr::check(&text).map_err(|_| unfit("an item cannot be read"))?;
            let values = signed_values(values).map_err(unfit)?;
            let tag = mac.over([values.as_bytes()]).encode(Encoding::Base64);
            let data = item.entry("additionalData").or_insert_with(|| Value::Object(serde_json::Map::new()));
            let data = data.as_object_mut().ok_or(unfit("additionalData is no object"))?;
            data.insert("hmacSignature".to_owned(), tag.into());
        }
        Ok(root.to_string().into_bytes())
    }
}

fn decode(text: &str) -> Result<Tag, &'static str> {
    Tag::decode(text.as_bytes(), Encoding::Base64, Hash::Sha256)
}

fn signed_values(item: JsonStr<'_>) -> Result<String, &'static str> {
    let mut text = String::new();
    for (index, pointer) in SIGNED.iter().enumerate() {
        if index > 0 {
            text.push(':');
        }
        match json::at(item, pointer) {
            None => {}
            Some(value) if value.kind() == JsonKind::Null => {}
            Some(value) if value.kind() == JsonKind::Bool => text.push_str(value.as_str()),
            Some(value) => {
                text.push_str(
                    &json::scalar(value).ok_or("a value that is signed is no text and no integer")?,
                );
            }
        }
    }
    Ok(text)
}
