//! `[[source.handler]]`: what applies the events of some types.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, de};

use crate::handler::{HandlerBinding, SqlHandler, Step, TypeFilter};
use crate::json_pointer::JsonPointer;
use crate::outbox::Forward;
use crate::store::Dialect;

use super::destination;
use super::report::Report;

/// What applies the events of some types.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerSection {
    /// Event types; one that ends in `*` matches by prefix. Empty: every type.
    #[serde(default)]
    pub on: Vec<String>,
    /// The statement over `event`: one text, or one for each dialect. This or `forward`.
    pub sql: Option<SqlText>,
    /// The destination that events are sent on to, when the other handlers have succeeded.
    pub forward: Option<String>,
    /// With `forward`: JSON pointer to the id of what the events are about; messages of one aggregate
    /// leave in order. Unset: where `order_by` finds the entity.
    pub aggregate: Option<JsonPointer>,
}

/// A statement, the same for both databases or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlText {
    Same(String),
    PerDialect { postgres: Option<String>, sqlite: Option<String> },
}

impl SqlText {
    /// The statement for a dialect, if there is one.
    #[must_use]
    pub fn for_dialect(&self, dialect: Dialect) -> Option<&str> {
        match (self, dialect) {
            (Self::Same(sql), _) => Some(sql),
            (Self::PerDialect { postgres, .. }, Dialect::Postgres) => postgres.as_deref(),
            (Self::PerDialect { sqlite, .. }, Dialect::Sqlite) => sqlite.as_deref(),
        }
    }
}

impl HandlerSection {
    /// `None` after an error was reported, or while the dialect is not known.
    pub(super) fn binding(
        &self,
        at: &str,
        destinations: &[String],
        dialect: Option<Dialect>,
        report: &mut Report,
    ) -> Option<HandlerBinding> {
        let step = match (&self.sql, &self.forward) {
            (Some(sql), None) => sql_step(sql, &format!("{at}.sql"), dialect, report),
            (None, Some(name)) => {
                let destination = destination::named(name, destinations, &format!("{at}.forward"), report);
                let aggregate = self.aggregate.clone();
                destination.map(|destination| Step::Forward(Arc::new(Forward { destination, aggregate })))
            }
            (Some(_), Some(_)) => {
                report
                    .error(at, "it has both sql and forward; write a handler for each, in the order wanted");
                None
            }
            (None, None) => {
                report.error(at, "it does nothing; add sql = \"…\" or forward = \"DESTINATION\"");
                None
            }
        };
        if self.aggregate.is_some() && self.forward.is_none() {
            report.error(
                &format!("{at}.aggregate"),
                "it orders messages, so it stands beside forward; remove it here",
            );
        }
        Some(HandlerBinding { on: TypeFilter::new(&self.on), step: step? })
    }
}

/// `None` after an error was reported, or while the dialect is not known.
fn sql_step(sql: &SqlText, key: &str, dialect: Option<Dialect>, report: &mut Report) -> Option<Step> {
    let dialect = dialect?;
    let Some(sql) = sql.for_dialect(dialect) else {
        let dialect = dialect.as_str();
        report.error(
            key,
            format!("there is no statement for {dialect}, which database.url names; add {dialect} = \"…\""),
        );
        return None;
    };
    let handler = SqlHandler::new(sql).map_err(|error| report.error(key, error.to_string())).ok()?;
    Some(Step::Sql(Arc::new(handler)))
}

impl<'de> Deserialize<'de> for SqlText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SqlVisitor)
    }
}

struct SqlVisitor;

/// The form with a statement for each dialect.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PerDialect {
    postgres: Option<String>,
    sqlite: Option<String>,
}

impl<'de> de::Visitor<'de> for SqlVisitor {
    type Value = SqlText;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a statement in quotes, or { postgres = \"…\", sqlite = \"…\" }")
    }

    fn visit_str<E: de::Error>(self, sql: &str) -> Result<SqlText, E> {
        Ok(SqlText::Same(sql.to_owned()))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<SqlText, A::Error> {
        let PerDialect { postgres, sqlite } =
            PerDialect::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(SqlText::PerDialect { postgres, sqlite })
    }
}
