//! Paths into a parsed TOML tree, and setting values at them.
//!
//! Whatever is set carries the span it is given: that is how the document knows where it came from.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::environment::PREFIX;

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Sets the value at a path, making the tables and list items on the way.
pub(super) fn set<'t>(
    table: &mut DeTable<'t>,
    path: &[Step],
    value: Spanned<DeValue<'t>>,
    span: &Range<usize>,
) -> Result<(), String> {
    let Some((Step::Key(name), rest)) = path.split_first() else {
        return Err(format!("this names no key; a key is written {PREFIX}SECTION__KEY"));
    };
    if name.is_empty() {
        return Err(format!("this names no key; a key is written {PREFIX}SECTION__KEY"));
    }
    let key = Spanned::new(span.clone(), Cow::Owned(name.clone()));
    let known = table.keys().find(|known| known.get_ref() == name).cloned();
    let is_new = known.is_none();
    let key = known.unwrap_or(key);
    if rest.is_empty() {
        table.insert(key, value);
        return Ok(());
    }
    if is_new {
        let empty = match &rest[0] {
            Step::Key(_) => DeValue::Table(DeTable::new()),
            Step::Index(_) => DeValue::Array(DeArray::new()),
        };
        table.insert(key.clone(), Spanned::new(span.clone(), empty));
    }
    let Some(inner) = table.get_mut(&key) else { return Err(format!("`{name}` cannot be set")) };
    match (&rest[0], inner.get_mut()) {
        (Step::Key(_), DeValue::Table(inner)) => set(inner, rest, value, span),
        (Step::Index(index), DeValue::Array(items)) => set_item(name, items, *index, &rest[1..], value, span),
        (Step::Key(_), DeValue::Array(_)) => {
            Err(format!("`{name}` is a list; name the item by its number, as in {}__0", name.to_uppercase()))
        }
        _ => Err(format!("`{name}` has no keys of its own; set {} instead", name.to_uppercase())),
    }
}

fn set_item<'t>(
    name: &str,
    items: &mut DeArray<'t>,
    index: usize,
    rest: &[Step],
    value: Spanned<DeValue<'t>>,
    span: &Range<usize>,
) -> Result<(), String> {
    if index > items.len() {
        return Err(format!("`{name}` has {} items; the next one is number {}", items.len(), items.len()));
    }
    if index == items.len() {
        items.push(Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
    }
    let item = items.get_mut(index).ok_or_else(|| format!("`{name}` has no item {index}"))?;
    if rest.is_empty() {
        *item = value;
        return Ok(());
    }
    match item.get_mut() {
        DeValue::Table(inner) => set(inner, rest, value, span),
        _ => Err(format!("item {index} of `{name}` has no keys of its own")),
    }
}

/// The same value, all of it at `span`.
pub(super) fn move_to<'t>(value: DeValue<'t>, span: &Range<usize>) -> Spanned<DeValue<'t>> {
    let value = match value {
        DeValue::Table(table) => DeValue::Table(
            table
                .into_iter()
                .map(|(key, value)| {
                    (Spanned::new(span.clone(), key.into_inner()), move_to(value.into_inner(), span))
                })
                .collect(),
        ),
        DeValue::Array(items) => {
            let mut moved = DeArray::new();
            for item in items {
                moved.push(move_to(item.into_inner(), span));
            }
            DeValue::Array(moved)
        }
        scalar => scalar,
    };
    Spanned::new(span.clone(), value)
}

pub(super) fn text_value<'t>(text: &str, span: &Range<usize>) -> Spanned<DeValue<'t>> {
    Spanned::new(span.clone(), DeValue::String(Cow::Owned(text.to_owned())))
}

pub(super) fn step_of(level: &str) -> Step {
    level.parse().map_or_else(|_| Step::Key(level.to_lowercase()), Step::Index)
}

/// The key called `name` beside `key`.
pub(super) fn sibling(key: &str, name: &str) -> String {
    match key.rsplit_once('.') {
        Some((table, _)) => format!("{table}.{name}"),
        None => name.to_owned(),
    }
}

pub(super) fn show_key(path: &[Step]) -> String {
    let mut key = String::new();
    for step in path {
        match step {
            Step::Key(name) if key.is_empty() => key.push_str(name),
            Step::Key(name) => {
                key.push('.');
                key.push_str(name);
            }
            Step::Index(index) => key.push_str(&format!("[{index}]")),
        }
    }
    key
}

/// Reads what [`show_key`] writes.
pub(super) fn parse_key(key: &str) -> Vec<Step> {
    key.split(['.', '[', ']'])
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().map_or_else(|_| Step::Key(part.to_owned()), Step::Index))
        .collect()
}
