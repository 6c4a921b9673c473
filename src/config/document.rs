//! The configuration text as a tree that knows where each value came from.
//!
//! A value stands in the file (then it has a line) or was set by a `HOOKLATCH__…` variable. One
//! device serves both: the parser's spans. A value from the variable number `n` carries a span that
//! lies `n` places beyond the end of the text, so whatever serde complains about can be traced.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::{Environment, PREFIX};
use super::error::{Finding, Place};
use super::keys::Keys;
use super::tree::{Step, move_to, parse_key, set, show_key, sibling, step_of, text_value};
use super::wording::Complaint;

/// Separates levels in the name of a variable.
const LEVEL: &str = "__";
/// After so many findings the rest is more likely a consequence than news.
const MAX_FINDINGS: usize = 20;

/// A variable that sets a value.
struct Override<'t> {
    name: &'t str,
    path: Vec<Step>,
    text: &'t str,
}

/// A parsed file with the environment applied.
pub(super) struct Document<'t> {
    file: String,
    text: &'t str,
    tree: Spanned<DeTable<'t>>,
    overrides: Vec<Override<'t>>,
}

impl<'t> Document<'t> {
    /// Parses `text` and applies the environment.
    pub(super) fn read(
        file: &str,
        text: &'t str,
        environment: &'t Environment,
    ) -> Result<Self, Vec<Finding>> {
        let (tree, errors) = DeTable::parse_recoverable(text);
        let mut document = Self { file: file.to_owned(), text, tree, overrides: Vec::new() };
        let syntax: Vec<_> = errors
            .iter()
            .take(MAX_FINDINGS)
            .map(|error| Finding {
                place: document.place_of(error.span().unwrap_or(0..0)),
                key: String::new(),
                message: format!("this is not valid TOML: {}", error.message()),
            })
            .collect();
        if !syntax.is_empty() {
            return Err(syntax);
        }
        document.apply(environment)?;
        Ok(document)
    }

    /// Reads the tree as `T`; on failure, every misfit that can be told apart.
    pub(super) fn shape<T: DeserializeOwned>(&mut self) -> Result<T, Vec<Finding>> {
        let mut findings: Vec<Finding> = Vec::new();
        let mut consequences: Vec<String> = Vec::new();
        loop {
            let error = match T::deserialize(toml::de::Deserializer::from(self.tree.clone())) {
                Ok(value) if findings.is_empty() => return Ok(value),
                Ok(_) => return Err(findings),
                Err(error) => error,
            };
            let span = error.span().unwrap_or_else(|| self.tree.span());
            let complaint = Complaint::read(error.message());
            if !complaint.is_about_a_key() && self.read_as_text(&span) {
                continue;
            }
            let (key, path) = self.locate(&span, &complaint);
            let place = path.as_ref().map_or_else(|| self.place_of(span), |path| self.place_at(path));
            let message = complaint.words();
            if !consequences.contains(&key) {
                findings.push(Finding { place, key: key.clone(), message });
            }
            // What may follow from this finding is not news: the key it took away, and the key that
            // was probably meant.
            if let Some(meant) = complaint.meant() {
                consequences.push(sibling(&key, meant));
            }
            consequences.push(key);
            let gone = match path {
                Some(path) if complaint.is_missing() => self.remove_holder(&path),
                Some(path) => self.remove(&path),
                None => false,
            };
            if !gone || findings.len() == MAX_FINDINGS {
                return Err(findings);
            }
        }
    }

    /// Where the value of a key such as `source[0].name` was set; for a default, where its section is.
    pub(super) fn place(&self, key: &str) -> Place {
        let mut path = parse_key(key);
        while !path.is_empty() {
            if self.find(&path).is_some() {
                return self.place_at(&path);
            }
            path.pop();
        }
        Place::File(self.file.clone())
    }

    /// What was set.
    pub(super) fn keys(&self) -> Keys {
        Keys::of(self.tree.get_ref())
    }

    fn apply(&mut self, environment: &'t Environment) -> Result<(), Vec<Finding>> {
        let mut overrides: Vec<_> = environment
            .overrides()
            .map(|(name, text)| Override {
                name,
                path: name[PREFIX.len()..].split(LEVEL).map(step_of).collect(),
                text,
            })
            .collect();
        // By place, so that the tenth source comes after the second.
        overrides.sort_by(|a, b| a.path.cmp(&b.path));
        self.overrides = overrides;

        let mut findings = Vec::new();
        for number in 0..self.overrides.len() {
            let span = self.span_of(number);
            let Override { name, path, text } = &self.overrides[number];
            let value = match DeValue::parse(text) {
                Ok(value) => move_to(value.into_inner(), &span),
                Err(_) => text_value(text, &span),
            };
            if let Err(message) = set(self.tree.get_mut(), path, value, &span) {
                findings.push(Finding {
                    place: Place::Variable((*name).to_owned()),
                    key: String::new(),
                    message,
                });
            }
        }
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }

    /// A variable's text was taken for a number, say, and does not fit as one: takes it as text.
    /// False when that is not the case.
    fn read_as_text(&mut self, span: &Range<usize>) -> bool {
        let Some(number) = self.variable_of(span) else { return false };
        let path = self.overrides[number].path.clone();
        let text = self.overrides[number].text;
        let is_scalar = self.find(&path).is_some_and(|(_, value)| {
            !matches!(value.get_ref(), DeValue::String(_) | DeValue::Table(_) | DeValue::Array(_))
        });
        if is_scalar {
            // The path was walked when the variable was applied.
            return set(self.tree.get_mut(), &path, text_value(text, span), span).is_ok();
        }
        false
    }

    /// The key a complaint is about, and its path if it is there.
    fn locate(&self, span: &Range<usize>, complaint: &Complaint) -> (String, Option<Vec<Step>>) {
        let holder = self.path_at(span, None);
        let Some(field) = complaint.field() else {
            return (holder.as_deref().map(show_key).unwrap_or_default(), holder);
        };
        if let Some(path) = self.path_at(span, Some(field)) {
            return (show_key(&path), Some(path));
        }
        let mut path = holder.unwrap_or_default();
        path.push(Step::Key(field.to_owned()));
        let key = show_key(&path);
        if self.find(&path).is_none() {
            path.pop();
        }
        (key, Some(path))
    }

    /// The deepest path whose key or value has this span, ending in `last` if given.
    fn path_at(&self, span: &Range<usize>, last: Option<&str>) -> Option<Vec<Step>> {
        let mut found = None;
        let mut path = Vec::new();
        search(self.tree.get_ref(), span, last, &mut path, &mut found);
        found
    }

    /// The span of the key and the value at a path.
    fn find(&self, path: &[Step]) -> Option<(Range<usize>, &Spanned<DeValue<'t>>)> {
        let (first, rest) = path.split_first()?;
        let Step::Key(name) = first else { return None };
        let (key, mut value) = self.tree.get_ref().iter().find(|(key, _)| key.get_ref() == name)?;
        let mut at = key.span();
        for step in rest {
            (at, value) = match (step, value.get_ref()) {
                (Step::Key(name), DeValue::Table(table)) => {
                    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
                    (key.span(), value)
                }
                (Step::Index(index), DeValue::Array(array)) => {
                    let value = array.get(*index)?;
                    (value.span(), value)
                }
                _ => return None,
            };
        }
        Some((at, value))
    }

    /// Removes the table that lacks a key, with the list it stands in.
    fn remove_holder(&mut self, path: &[Step]) -> bool {
        let mut path = path;
        while let Some((Step::Index(_), parents)) = path.split_last() {
            path = parents;
        }
        self.remove(path)
    }

    fn remove(&mut self, path: &[Step]) -> bool {
        let Some((Step::Key(last), parents)) = path.split_last() else { return false };
        let mut table = self.tree.get_mut();
        let mut steps = parents.iter();
        while let Some(step) = steps.next() {
            let Step::Key(name) = step else { return false };
            let Some((_, value)) = table.iter_mut().find(|(key, _)| key.get_ref() == name) else {
                return false;
            };
            let mut value = value.get_mut();
            while let DeValue::Array(array) = value {
                let Some(Step::Index(index)) = steps.next() else { return false };
                let Some(item) = array.get_mut(*index) else { return false };
                value = item.get_mut();
            }
            let DeValue::Table(inner) = value else { return false };
            table = inner;
        }
        let Some(key) = table.keys().find(|key| key.get_ref() == last).cloned() else { return false };
        table.remove(&key).is_some()
    }

    /// A value that a variable set is the variable's matter, wherever its key was first written.
    fn place_at(&self, path: &[Step]) -> Place {
        match self.find(path) {
            Some((key, value)) if self.variable_of(&value.span()).is_none() => self.place_of(key),
            Some((_, value)) => self.place_of(value.span()),
            None => Place::File(self.file.clone()),
        }
    }

    fn place_of(&self, span: Range<usize>) -> Place {
        if let Some(number) = self.variable_of(&span) {
            return Place::Variable(self.overrides[number].name.to_owned());
        }
        let start = span.start.min(self.text.len());
        let line = self.text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        Place::Line { file: self.file.clone(), line }
    }

    fn span_of(&self, variable: usize) -> Range<usize> {
        let start = self.text.len() + 1 + variable;
        start..start
    }

    fn variable_of(&self, span: &Range<usize>) -> Option<usize> {
        let number = span.start.checked_sub(self.text.len() + 1)?;
        (number < self.overrides.len()).then_some(number)
    }
}

/// Finds the deepest key or value with this span; see [`Document::path_at`].
fn search(
    table: &DeTable<'_>,
    span: &Range<usize>,
    last: Option<&str>,
    path: &mut Vec<Step>,
    found: &mut Option<Vec<Step>>,
) {
    for (key, value) in table {
        path.push(Step::Key(key.get_ref().to_string()));
        let named = last.is_none_or(|last| last == key.get_ref());
        if named && (key.span() == *span || value.span() == *span) {
            *found = Some(path.clone());
        }
        search_value(value, span, last, path, found);
        path.pop();
    }
}

fn search_value(
    value: &Spanned<DeValue<'_>>,
    span: &Range<usize>,
    last: Option<&str>,
    path: &mut Vec<Step>,
    found: &mut Option<Vec<Step>>,
) {
    match value.get_ref() {
        DeValue::Table(table) => search(table, span, last, path, found),
        DeValue::Array(array) => {
            for (index, item) in array.iter().enumerate() {
                path.push(Step::Index(index));
                if last.is_none() && item.span() == *span {
                    *found = Some(path.clone());
                }
                search_value(item, span, last, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}
