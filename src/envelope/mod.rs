//! From a verified request to its events.
//!
//! A pure function of the request and the source's rules. What comes out is valid by construction:
//! ids that every store can hold, JSON that every reader reads the same way, slices of the body
//! exactly as sent. What does not fit is refused with a sentence for the sender. Must not know
//! signatures, stores or HTTP types.

mod body;
mod error;
mod guard;
mod key;
mod locator;
mod value;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::Deserialize;

use crate::event::{Event, EventKey, JsonText, OrderKey, RawRequest};
use crate::json_pointer::JsonPointer;
use crate::json_scan::{JsonKind, JsonStr};

pub(crate) use body::{form_decode, form_pairs, is_form};
pub use error::{EnvelopeError, Fault, Role};
pub use guard::body_guard;
pub use key::{fingerprint, idempotency_key};
pub use locator::{Locator, LocatorError, Locators};
pub use value::MAX_EVENT_TYPE_BYTES;

/// Most events of one delivery: what the largest senders put into one (Azure Event Grid: 5000).
pub const MAX_EVENTS_PER_DELIVERY: usize = 5000;

/// The field in which a form carries the JSON, unless configured otherwise (GitHub's).
pub const DEFAULT_FORM_FIELD: &str = "payload";

/// Joins the parts of ids and types that come from several places.
const JOINT: char = ':';

/// Where the parts of an event live in what a source sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeRules {
    /// The event id: a JSON string or integer, or a header. Its text exactly as sent, so the
    /// integer 1 and the text `1` are one id, and upper and lower case are two.
    ///
    /// From several places, all of them must be there, and are joined by `:`. So that no two lists
    /// make one id (`a:b`, `c` and `a`, `b:c`), in all but the last a `:` is written `%3A` and a
    /// `%` is written `%25`.
    pub event_id: Locators,
    /// The event type: as for the id, but no `:` is rewritten, and what is absent or null is left
    /// out. An event without any has the empty type.
    pub event_type: Option<Locators>,
    /// When the event happened: RFC 3339, or seconds or milliseconds since 1970. Absent and null
    /// mean that the sender does not say.
    pub event_time: Option<Locator>,
    /// What handlers see as `data`; the whole event unless set. An event that has nothing there
    /// has the data `null`.
    pub data: Option<JsonPointer>,
    /// The array of events in the body; unset, the body is one event. The other pointers are then
    /// relative to an item. An empty array is a valid delivery of no events: senders use it as a
    /// probe, and refusing it would only make them stop sending.
    pub items: Option<JsonPointer>,
    /// Which events are about one thing, and in which order they happened.
    pub order_by: Option<OrderRule>,
    /// The field in which a form carries the JSON.
    pub form_field: String,
    /// A form without that field is itself the event: its fields are the members of an object.
    pub form_as_object: bool,
    /// A body that is an array carries many events, one that is an object is one (`CloudEvents`).
    pub list_or_one: bool,
}

/// Where a sender is known to put the parts of its events: the rules that hold unless the
/// configuration says otherwise, in its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopePreset {
    pub event_id: &'static [&'static str],
    pub event_type: &'static [&'static str],
    pub event_time: Option<&'static str>,
    pub items: Option<&'static str>,
    pub form_as_object: bool,
    pub list_or_one: bool,
}

impl EnvelopePreset {
    /// One event a body, its id at `/id`, its type at `/type`.
    pub const USUAL: Self = Self {
        event_id: &["/id"],
        event_type: &["/type"],
        event_time: None,
        items: None,
        form_as_object: false,
        list_or_one: false,
    };

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> EnvelopeRules {
        const VALID: &str = "a preset names valid places; a test reads them all";
        let places = |texts: &[&str]| {
            let places = texts.iter().map(|text| Locator::parse(text)).collect::<Result<Vec<_>, _>>();
            places.and_then(Locators::new).expect(VALID)
        };
        EnvelopeRules {
            event_id: places(self.event_id),
            event_type: (!self.event_type.is_empty()).then(|| places(self.event_type)),
            event_time: self.event_time.map(|text| Locator::parse(text).expect(VALID)),
            items: self.items.map(|text| JsonPointer::parse(text).expect(VALID)),
            form_as_object: self.form_as_object,
            list_or_one: self.list_or_one,
            data: None,
            order_by: None,
            form_field: DEFAULT_FORM_FIELD.to_owned(),
        }
    }
}

/// Which events are about one thing, and in which order they happened.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderRule {
    /// The thing: a string or an integer. An event without it is in no order.
    pub entity: Locator,
    /// The position: an integer, or an RFC 3339 time. An event with an entity must have it.
    pub sequence: Locator,
}

/// Why rules cannot work, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    #[error(
        "with `items`, `event_id` needs a place in the body: a header is the same for every event of a delivery"
    )]
    OneIdForAllItems,
    #[error("`form_field` is empty; name the field that carries the JSON, such as \"{DEFAULT_FORM_FIELD}\"")]
    EmptyFormField,
}

/// The events of a delivery.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// In the order of the body. Empty only for a batch: a delivery with nothing to do.
    pub events: Vec<Event>,
    /// The body carries a list, be it of one: the answer then names each event.
    pub is_batch: bool,
}

impl Default for EnvelopeRules {
    /// One event a body, its id at `/id`, its type at `/type`.
    fn default() -> Self {
        EnvelopePreset::USUAL.rules()
    }
}

impl EnvelopeRules {
    /// Whether the rules fit together.
    ///
    /// # Errors
    /// When they do not.
    pub fn check(&self) -> Result<(), RulesError> {
        let may_be_many = self.items.is_some();
        if may_be_many && !self.event_id.as_slice().iter().any(Locator::tells_items_apart) {
            return Err(RulesError::OneIdForAllItems);
        }
        if self.form_field.is_empty() {
            return Err(RulesError::EmptyFormField);
        }
        Ok(())
    }

    /// The events in `request`.
    ///
    /// # Errors
    /// When the body is not the JSON this source sends, or an event has no valid id, type, time or
    /// place in its order. One event that does not fit refuses the whole delivery: nothing is half
    /// done, and the sender keeps it.
    pub fn parse(&self, consumer: &Arc<str>, request: &RawRequest) -> Result<Parsed, EnvelopeError> {
        let body = body::json_text(request, &self.form_field, self.form_as_object)?;
        let text = std::str::from_utf8(&body)
            .map_err(|error| EnvelopeError::NotUtf8 { offset: error.valid_up_to() })?;
        if text.trim_ascii().is_empty() {
            return Err(EnvelopeError::EmptyBody);
        }
        let root = JsonStr::check(text).map_err(EnvelopeError::Json)?;
        let reader = Reader { rules: self, consumer, request, body: &body };
        let whole = JsonPointer::default();
        let is_list = self.list_or_one && root.kind() == JsonKind::Array;
        let Some(items) = self.items.as_ref().or(is_list.then_some(&whole)) else {
            if root.kind() != JsonKind::Object {
                return Err(EnvelopeError::WrongShape { expected: "object" });
            }
            return Ok(Parsed { events: vec![reader.event(root, None)?], is_batch: false });
        };
        if items.is_whole() && root.kind() != JsonKind::Array {
            return Err(EnvelopeError::WrongShape { expected: "array" });
        }
        if !items.is_whole() && root.kind() != JsonKind::Object {
            return Err(EnvelopeError::WrongShape { expected: "object" });
        }
        let list = items
            .find(root)
            .filter(|list| list.kind() == JsonKind::Array)
            .ok_or_else(|| EnvelopeError::NoItems { pointer: items.to_string() })?;
        let mut events = Vec::new();
        for (index, item) in list.elements().enumerate() {
            if index == MAX_EVENTS_PER_DELIVERY {
                return Err(EnvelopeError::TooManyItems { limit: MAX_EVENTS_PER_DELIVERY });
            }
            events.push(reader.event(item, Some(index))?);
        }
        Ok(Parsed { events, is_batch: true })
    }
}

/// Reads the events of one request.
struct Reader<'r> {
    rules: &'r EnvelopeRules,
    consumer: &'r Arc<str>,
    request: &'r RawRequest,
    body: &'r Bytes,
}

impl<'r> Reader<'r> {
    fn event(&self, event: JsonStr<'r>, item: Option<usize>) -> Result<Event, EnvelopeError> {
        if event.kind() != JsonKind::Object {
            let fault = Fault::Invalid("is not an object");
            let place = self.rules.items.as_ref().map_or_else(String::new, |items| format!("body:{items}"));
            return Err(EnvelopeError::Field { item, role: Role::Item, place, fault });
        }
        let event_id = self.event_id(event).map_err(|at| at.in_item(item))?;
        let event_type = self.event_type(event).map_err(|at| at.in_item(item))?;
        let occurred_at = self.occurred_at(event).map_err(|at| at.in_item(item))?;
        let order = self.order(event).map_err(|at| at.in_item(item))?;
        let payload = JsonText::part_of(self.body, event);
        let data = match &self.rules.data {
            None => payload.clone(),
            Some(pointer) => {
                pointer.find(event).map_or_else(JsonText::null, |data| JsonText::part_of(self.body, data))
            }
        };
        let key = EventKey { consumer: Arc::clone(self.consumer), event_id };
        Ok(Event { key, event_type, occurred_at, payload, data, order })
    }

    fn event_id(&self, event: JsonStr<'r>) -> Result<Arc<str>, AtPlace<'r>> {
        let at = |place| move |fault| AtPlace { role: Role::EventId, place, fault };
        let places = self.rules.event_id.as_slice();
        if let [place] = places {
            let id = place.look_up(self.request, event).map_err(at(place))?;
            value::check_identifier(id.as_str()).map_err(at(place))?;
            return Ok(id.as_str().into());
        }
        let mut joined = String::new();
        for (index, place) in places.iter().enumerate() {
            let part = place.look_up(self.request, event).map_err(at(place))?;
            value::check_identifier(part.as_str()).map_err(at(place))?;
            if index + 1 == places.len() {
                joined.push_str(part.as_str());
            } else {
                joined.push_str(&without_joint(part.as_str()));
                joined.push(JOINT);
            }
            value::check_identifier(&joined).map_err(at(place))?;
        }
        Ok(joined.into())
    }

    fn event_type(&self, event: JsonStr<'r>) -> Result<Arc<str>, AtPlace<'r>> {
        let mut joined = Cow::Borrowed("");
        for place in self.rules.event_type.iter().flat_map(|places| places.as_slice()) {
            let at = |fault| AtPlace { role: Role::EventType, place, fault };
            let Some(part) = forgiving(place.look_up(self.request, event)).map_err(at)? else { continue };
            if joined.is_empty() {
                joined = Cow::Owned(part.as_str().to_owned());
            } else {
                let joined = joined.to_mut();
                joined.push(JOINT);
                joined.push_str(part.as_str());
            }
            value::check_type(&joined).map_err(at)?;
        }
        Ok(joined.into())
    }

    fn occurred_at(&self, event: JsonStr<'r>) -> Result<Option<DateTime<Utc>>, AtPlace<'r>> {
        let Some(place) = &self.rules.event_time else { return Ok(None) };
        let at = |fault| AtPlace { role: Role::EventTime, place, fault };
        let Some(found) = forgiving(place.look_up(self.request, event)).map_err(at)? else { return Ok(None) };
        value::time(&found).map(Some).map_err(at)
    }

    fn order(&self, event: JsonStr<'r>) -> Result<Option<OrderKey>, AtPlace<'r>> {
        let Some(OrderRule { entity, sequence }) = &self.rules.order_by else { return Ok(None) };
        let at_entity = |fault| AtPlace { role: Role::Entity, place: entity, fault };
        let at_sequence = |fault| AtPlace { role: Role::Sequence, place: sequence, fault };
        let Some(found) = forgiving(entity.look_up(self.request, event)).map_err(at_entity)? else {
            return Ok(None);
        };
        value::check_identifier(found.as_str()).map_err(at_entity)?;
        let position = sequence.look_up(self.request, event).map_err(at_sequence)?;
        let sequence = value::sequence(&position).map_err(at_sequence)?;
        Ok(Some(OrderKey { entity: found.as_str().into(), sequence }))
    }
}

/// A fault, and the place it is at.
struct AtPlace<'r> {
    role: Role,
    place: &'r Locator,
    fault: Fault,
}

impl AtPlace<'_> {
    fn in_item(self, item: Option<usize>) -> EnvelopeError {
        EnvelopeError::Field { item, role: self.role, place: self.place.to_string(), fault: self.fault }
    }
}

/// Nothing there, and null, are not an error.
fn forgiving<T>(found: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Fault::Missing | Fault::Null) => Ok(None),
        Err(fault @ Fault::Invalid(_)) => Err(fault),
    }
}

/// `part` without the character that joins parts, so that the joined text tells its parts.
fn without_joint(part: &str) -> Cow<'_, str> {
    if part.contains([JOINT, '%']) {
        Cow::Owned(part.replace('%', "%25").replace(JOINT, "%3A"))
    } else {
        Cow::Borrowed(part)
    }
}

#[cfg(test)]
mod tests;
