//! Says in plain words what serde complains about.
//!
//! serde's messages name Rust types and repeat values. This file reads them and says what a person
//! needs: which key, what was expected, the nearest known name. A text that is not understood is
//! passed on as it is. Values of a wrong type are never repeated: they may be secrets.

/// How alike two names must be for one to be suggested for the other (1 is equal).
const ALIKE: f64 = 0.5;

/// A message of serde, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    UnknownKey { key: String, known: Vec<String> },
    UnknownWord { word: String, known: Vec<String> },
    Missing { key: String },
    WrongType { is: &'static str, expected: String },
    Other(String),
}

impl Complaint {
    pub(super) fn read(message: &str) -> Self {
        let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
        if message.starts_with("unknown field `") {
            let key = quoted.next().unwrap_or_default();
            return Self::UnknownKey { key, known: quoted.collect() };
        }
        if message.starts_with("unknown variant `") {
            let word = quoted.next().unwrap_or_default();
            return Self::UnknownWord { word, known: quoted.collect() };
        }
        if message.starts_with("missing field `") {
            return Self::Missing { key: quoted.next().unwrap_or_default() };
        }
        let misfit =
            message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
        match misfit
            .and_then(|rest| rest.rsplit_once(", expected ").or_else(|| rest.split_once("; expected ")))
        {
            Some((found, expected)) => Self::WrongType { is: kind(found), expected: plain(expected) },
            None if message == "wanted string or table" => Self::WrongType {
                is: "of another type",
                expected: "one of the words it takes, in quotes".to_owned(),
            },
            None => Self::Other(message.to_owned()),
        }
    }

    /// The key that is unknown or missing in the table the error points at.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { key, .. } | Self::Missing { key } => Some(key),
            _ => None,
        }
    }

    /// The key that was probably meant by an unknown one.
    pub(super) fn meant(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { key, known } => nearest(key, known),
            _ => None,
        }
    }

    pub(super) fn is_about_a_key(&self) -> bool {
        self.field().is_some()
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::UnknownKey { key, known } => match nearest(key, known) {
                Some(near) => format!("there is no such key; did you mean `{near}`?"),
                None if known.is_empty() => "there is no such key; remove it".to_owned(),
                None => format!("there is no such key; the keys here are {}", known.join(", ")),
            },
            Self::UnknownWord { word, known } => {
                let near = nearest(word, known);
                let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                format!("{word:?} is none of {}{hint}", known.join(", "))
            }
            Self::Missing { key } => match key.as_str() {
                "name" => "every source has a name; add name = \"…\", the last part of its path".to_owned(),
                "sql" => "every handler has a statement; add sql = \"…\"".to_owned(),
                _ => "this key is missing; add it".to_owned(),
            },
            Self::WrongType { is, expected } => format!("this is {is}; write {expected}"),
            Self::Other(message) => message.clone(),
        }
    }
}

/// The known name that is most like `name`, if one is like it at all.
fn nearest<'k>(name: &str, known: &'k [String]) -> Option<&'k str> {
    known
        .iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known.as_str()))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// What serde found, without the value.
fn kind(found: &str) -> &'static str {
    match found.split([' ', '`']).next().unwrap_or_default() {
        "string" => "a text",
        "integer" if found.contains("`-") => "a negative number",
        "integer" => "a whole number",
        "floating" => "a number with a fraction",
        "boolean" => "true or false",
        "map" => "a table",
        "sequence" => "a list",
        _ => "something else",
    }
}

/// What serde expected, without Rust's names.
fn plain(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "a string" | "string" | "a borrowed string" => "a text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}
