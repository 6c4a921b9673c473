//! What a sender signs, as a list of parts that are hashed one after another, never joined.

use super::config::VerifyConfigError;

/// Most parts of a template: more than any sender uses, few enough to be free.
const MAX_PARTS: usize = 32;

/// One part of the signed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Literal(String),
    Body,
    Timestamp,
    /// Lower-case name.
    Header(String),
    /// A field of the signature's header.
    Field(String),
    Method,
    Url,
    /// The body as a JSON string, quotes and all.
    JsonBody,
    /// For a plain hash, which has no other place for it.
    Secret,
}

/// Reads a template such as `v0:{timestamp}:{body}`; `{id}` is the header `id_header`.
pub(super) fn parse(template: &str, id_header: Option<&str>) -> Result<Vec<Part>, VerifyConfigError> {
    let bad = |problem: String| VerifyConfigError::BadKnob { key: "signed", problem };
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..];
        if brace.starts_with("{{") || brace.starts_with("}}") {
            literal.push_str(&brace[..1]);
            rest = &brace[2..];
            continue;
        }
        let inner = brace.strip_prefix('{').ok_or_else(|| bad("has a `}` alone; write `}}`".into()))?;
        let (name, after) =
            inner.split_once('}').ok_or_else(|| bad("has a `{` that is never closed; write `{{`".into()))?;
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal)));
        }
        parts.push(match (name, id_header) {
            ("id", Some(header)) => Part::Header(header.to_owned()),
            ("id", None) => {
                return Err(VerifyConfigError::Missing {
                    key: "id_header",
                    way_out: "`signed` has {id}; say which header it is in",
                });
            }
            _ => placeholder(name).map_err(bad)?,
        });
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    if !parts.contains(&Part::Body) && !parts.contains(&Part::JsonBody) {
        return Err(bad("has no {body}, so anyone could change the body; add it".into()));
    }
    if parts.len() > MAX_PARTS {
        return Err(bad(format!("has more than {MAX_PARTS} parts")));
    }
    Ok(parts)
}

fn placeholder(name: &str) -> Result<Part, String> {
    match name {
        "body" => Ok(Part::Body),
        "timestamp" => Ok(Part::Timestamp),
        "method" => Ok(Part::Method),
        "url" => Ok(Part::Url),
        "json:body" => Ok(Part::JsonBody),
        "secret" => Ok(Part::Secret),
        _ => match name.split_once(':') {
            Some(("header", header)) if super::is_header_name(header) => {
                Ok(Part::Header(header.to_ascii_lowercase()))
            }
            Some(("header", _)) => Err(format!("names no header in `{{{name}}}`")),
            Some(("field", field)) if !field.is_empty() => Ok(Part::Field(field.to_owned())),
            _ => Err(format!(
                "knows no `{{{name}}}`; there are {{body}}, {{timestamp}}, {{id}}, {{header:NAME}}, \
                 {{field:NAME}}, {{method}}, {{url}}, {{json:body}}, {{secret}}"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_becomes_its_parts() {
        assert_eq!(
            parse("v0:{timestamp}:{header:X-Id}{id}{{{body}}}{field:env}", Some("id")).unwrap(),
            [
                Part::Literal("v0:".into()),
                Part::Timestamp,
                Part::Literal(":".into()),
                Part::Header("x-id".into()),
                Part::Header("id".into()),
                Part::Literal("{".into()),
                Part::Body,
                Part::Literal("}".into()),
                Part::Field("env".into()),
            ]
        );
    }

    #[test]
    fn a_template_that_cannot_be_meant_is_refused_with_the_way_out() {
        for (template, says) in [
            ("", "no {body}"),
            ("{timestamp}", "no {body}"),
            ("{body", "never closed"),
            ("body}", "`}` alone"),
            ("{bdy}", "knows no `{bdy}`"),
            ("{id}{body}", "`id_header` is missing"),
            ("{header:}{body}", "names no header"),
            ("{header:a b}{body}", "names no header"),
        ] {
            let error = parse(template, None).unwrap_err().to_string();
            assert!(error.contains(says), "{template}: {error}");
        }
    }
}
