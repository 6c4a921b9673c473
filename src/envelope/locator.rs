//! Where in a request a value lives: in the body, at a pointer, or in a header.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

use super::error::Fault;
use crate::event::RawRequest;
use crate::json_pointer::{JsonPointer, JsonPointerError};
use crate::json_scan::{JsonKind, JsonStr};
use crate::signature::is_header_name;

/// Most places one value is put together from.
const MAX_LOCATORS: usize = 8;

/// Between places of which the first that is there counts.
const ALTERNATIVE: &str = " | ";
const DIGEST: &str = "digest";
const DELIVERY: &str = "delivery";

/// One place: `body:/pointer` (or just `/pointer`), `header:NAME`, `digest`, `delivery`; or several
/// with ` | ` between them, of which the first that is there counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator {
    /// Relative to the event: the body, or its item of a body that carries many.
    Body(JsonPointer),
    /// Lower-case name.
    Header(String),
    /// SHA-256 of the event's JSON as sent, for senders that give no id and repeat a delivery byte
    /// for byte. Two events that are alike to the byte count as one.
    Digest,
    /// Another id for each delivery, for senders whose deliveries only say that something changed:
    /// nothing is recognised as repeated.
    Delivery,
    /// The first of these that is there.
    FirstOf(Vec<Locator>),
}

/// One place or several: in the configuration a text or a list of texts. What stands there is
/// joined by `:`, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locators(Vec<Locator>);

/// Why a text is no locator, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocatorError {
    #[error(
        "`{0}` says no place; write \"body:/pointer\" or \"header:NAME\" (or \"digest\" or \"delivery\", for \
         senders that give no id)"
    )]
    NoPlace(String),
    #[error("`{0}` is not the name of a header; write \"header:NAME\"")]
    BadHeader(String),
    #[error(transparent)]
    BadPointer(#[from] JsonPointerError),
    #[error("the list of places is empty; name one, such as \"body:/id\"")]
    Empty,
    #[error("the list names more than {MAX_LOCATORS} places")]
    TooMany,
}

/// What stands at a place: text or digits.
pub(super) enum Scalar<'a> {
    Text(Cow<'a, str>),
    Integer(&'a str),
}

impl Scalar<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Integer(digits) => digits,
        }
    }
}

impl Locator {
    /// Reads a locator.
    ///
    /// # Errors
    /// When `text` is none.
    pub fn parse(text: &str) -> Result<Self, LocatorError> {
        if text.contains(ALTERNATIVE) {
            let places: Vec<_> = text.split(ALTERNATIVE).map(Self::parse).collect::<Result<_, _>>()?;
            return if places.len() > MAX_LOCATORS {
                Err(LocatorError::TooMany)
            } else {
                Ok(Self::FirstOf(places))
            };
        }
        match text {
            DIGEST => return Ok(Self::Digest),
            DELIVERY => return Ok(Self::Delivery),
            _ => {}
        }
        if let Some(pointer) = text.strip_prefix("body:") {
            return Ok(Self::Body(JsonPointer::parse(pointer)?));
        }
        if let Some(name) = text.strip_prefix("header:") {
            if !is_header_name(name) {
                return Err(LocatorError::BadHeader(name.to_owned()));
            }
            return Ok(Self::Header(name.to_ascii_lowercase()));
        }
        if text.starts_with('/') {
            return Ok(Self::Body(JsonPointer::parse(text)?));
        }
        Err(LocatorError::NoPlace(text.to_owned()))
    }

    /// The headers it reads.
    #[must_use]
    pub fn headers(&self) -> Vec<&str> {
        match self {
            Self::Header(name) => vec![name],
            Self::FirstOf(places) => places.iter().flat_map(Self::headers).collect(),
            Self::Body(_) | Self::Digest | Self::Delivery => Vec::new(),
        }
    }

    /// What stands there for one event. Nothing there, and `null`, are faults that the caller may
    /// forgive.
    pub(super) fn look_up<'r>(
        &self,
        request: &'r RawRequest,
        event: JsonStr<'r>,
    ) -> Result<Scalar<'r>, Fault> {
        match self {
            Self::Body(pointer) => scalar(pointer.find(event).ok_or(Fault::Missing)?),
            Self::Header(name) => {
                let mut values = request.header_values(name);
                let value = values.next().ok_or(Fault::Missing)?;
                if values.next().is_some() {
                    return Err(Fault::Invalid("was sent twice"));
                }
                let text = std::str::from_utf8(value).map_err(|_| Fault::Invalid("is not UTF-8"))?;
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }
            Self::Digest => {
                let digest = Sha256::digest(event.as_str().as_bytes());
                Ok(Scalar::Text(Cow::Owned(hex::encode(digest))))
            }
            Self::Delivery => Ok(Scalar::Text(Cow::Owned(crate::clock::new_id().to_string()))),
            Self::FirstOf(places) => {
                let mut last = Fault::Missing;
                for place in places {
                    match place.look_up(request, event) {
                        Err(absent @ (Fault::Missing | Fault::Null)) => last = absent,
                        found => return found,
                    }
                }
                Err(last)
            }
        }
    }

    /// The place that counts when every alternative is there.
    #[must_use]
    pub fn first(&self) -> &Self {
        match self {
            Self::FirstOf(places) => places.first().map_or(self, Self::first),
            place => place,
        }
    }

    /// Whether it is a place of its own in each item of a body that carries many.
    pub(super) fn tells_items_apart(&self) -> bool {
        match self {
            Self::Body(_) | Self::Digest | Self::Delivery => true,
            Self::Header(_) => false,
            Self::FirstOf(places) => places.iter().all(Self::tells_items_apart),
        }
    }
}

fn scalar(value: JsonStr<'_>) -> Result<Scalar<'_>, Fault> {
    match value.kind() {
        JsonKind::String => {
            value.text().map(Scalar::Text).ok_or(Fault::Invalid("holds half of a surrogate pair"))
        }
        JsonKind::Number => value
            .integer()
            .map(Scalar::Integer)
            .ok_or(Fault::Invalid("is a number with a fraction or an exponent")),
        JsonKind::Null => Err(Fault::Null),
        JsonKind::Bool => Err(Fault::Invalid("is true or false")),
        JsonKind::Object => Err(Fault::Invalid("is an object")),
        JsonKind::Array => Err(Fault::Invalid("is an array")),
    }
}

impl Locators {
    /// One place or several.
    ///
    /// # Errors
    /// When there is none, or there are too many.
    pub fn new(places: Vec<Locator>) -> Result<Self, LocatorError> {
        match places.len() {
            0 => Err(LocatorError::Empty),
            1..=MAX_LOCATORS => Ok(Self(places)),
            _ => Err(LocatorError::TooMany),
        }
    }

    #[must_use]
    pub fn as_slice(&self) -> &[Locator] {
        &self.0
    }
}

impl From<Locator> for Locators {
    fn from(place: Locator) -> Self {
        Self(vec![place])
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(pointer) => write!(f, "body:{pointer}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Digest => f.write_str(DIGEST),
            Self::Delivery => f.write_str(DELIVERY),
            Self::FirstOf(places) => {
                for (index, place) in places.iter().enumerate() {
                    if index > 0 {
                        f.write_str(ALTERNATIVE)?;
                    }
                    place.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Locator {
    type Err = LocatorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<'de> Deserialize<'de> for Locator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Locators {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrList)
    }
}

/// Reads a text or a list of texts. Written out, because an untagged enum would hide which place
/// is wrong.
struct TextOrList;

impl<'de> serde::de::Visitor<'de> for TextOrList {
    type Value = Locators;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place such as \"body:/id\" or \"header:NAME\", or a list of places")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Locators, E> {
        Locator::parse(text).map(Locators::from).map_err(E::custom)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Locators, A::Error> {
        let mut places = Vec::new();
        while let Some(place) = list.next_element()? {
            places.push(place);
        }
        Locators::new(places).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Holder {
        at: Locators,
    }

    #[test]
    fn a_text_and_a_list_are_read_and_written_back() {
        for (toml, shown) in [
            ("at = \"/id\"", "body:/id"),
            ("at = \"body:\"", "body:"),
            ("at = \"header:X-Event-Id\"", "header:x-event-id"),
            ("at = [\"body:/a~1b\", \"header:B\"]", "body:/a~1b header:b"),
            ("at = \"header:A | /b | digest\"", "header:a | body:/b | digest"),
            ("at = [\"delivery\"]", "delivery"),
        ] {
            let holder: Holder = toml::from_str(toml).unwrap();
            let text: Vec<_> = holder.at.as_slice().iter().map(Locator::to_string).collect();
            assert_eq!(text.join(" "), shown);
        }
    }

    #[test]
    fn what_says_no_place_is_refused_with_the_way_out() {
        for (toml, says) in [
            ("at = \"id\"", "write \"body:/pointer\" or \"header:NAME\""),
            ("at = \"body:id\"", "begins with a slash"),
            ("at = \"header:\"", "not the name of a header"),
            ("at = \"header:a b\"", "not the name of a header"),
            ("at = []", "is empty"),
            ("at = [\"/a\", \"b\"]", "`b` says no place"),
            ("at = 1", "expected a place"),
            (&format!("at = {:?}", ["/a"; 9]), "more than 8"),
        ] {
            let error = toml::from_str::<Holder>(toml).unwrap_err().to_string();
            assert!(error.contains(says), "{toml}: {error}");
        }
    }
}
