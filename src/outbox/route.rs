//! Where in a broker a message goes: a text with places for what the message says of itself.
//!
//! `orders.{event_type}` is a routing key, a subject or a topic. A message without what its route needs
//! is refused: it would go where nobody expects it.

use std::fmt;

use crate::store::outbox::Message;

/// A routing key, subject or topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    EventType,
    AggregateId,
}

impl Route {
    /// # Errors
    /// What is wrong with it, and what may stand there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("there is a `{` without its `}`")?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(match name {
                "event_type" => Part::EventType,
                "aggregate_id" => Part::AggregateId,
                _ => {
                    return Err(format!("there is no {{{name}}}; write {{event_type}} or {{aggregate_id}}"));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self(parts))
    }

    /// The event's type, as it is.
    #[must_use]
    pub fn event_type() -> Self {
        Self(vec![Part::EventType])
    }

    /// Whether it is one for all messages, and empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where this message goes.
    ///
    /// # Errors
    /// When the message lacks what the route needs.
    pub fn of(&self, message: &Message) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.0 {
            text.push_str(match part {
                Part::Text(part) => part,
                Part::EventType if message.event_type.is_empty() => {
                    return Err(format!("its route is `{self}`, and it has no event type"));
                }
                Part::EventType => &message.event_type,
                Part::AggregateId => message
                    .aggregate_id
                    .as_deref()
                    .ok_or_else(|| format!("its route is `{self}`, and it has no aggregate id"))?,
            });
        }
        Ok(text)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::EventType => f.write_str("{event_type}")?,
                Part::AggregateId => f.write_str("{aggregate_id}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::labels::tests::message;

    #[test]
    fn a_route_is_filled_in_from_the_message() {
        let message = message("order_created", Some("7"));
        for (route, expected) in [
            ("orders", "orders"),
            ("{event_type}", "order_created"),
            ("shop.{event_type}.{aggregate_id}", "shop.order_created.7"),
            ("", ""),
        ] {
            let parsed = Route::parse(route).expect(route);
            assert_eq!(parsed.of(&message).as_deref(), Ok(expected));
            assert_eq!(parsed.to_string(), route);
        }
    }

    #[test]
    fn a_message_without_what_its_route_needs_is_told_so() {
        let bare = message("", None);
        for route in ["{event_type}", "x.{aggregate_id}"] {
            let error = Route::parse(route).expect(route).of(&bare).expect_err(route);
            assert!(error.contains(route), "{error}");
        }
    }

    #[test]
    fn a_place_that_does_not_exist_is_an_error_with_the_way_out() {
        for route in ["{type}", "a.{event_type"] {
            assert!(Route::parse(route).is_err(), "{route}");
        }
        assert!(Route::parse("{type}").expect_err("no such place").contains("{event_type}"));
    }
}
