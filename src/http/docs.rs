//! `GET /docs`: the OpenAPI document as one page for people.
//!
//! Rendered here, once, from the document itself: the page needs no script, loads nothing from
//! anywhere, and works without a network.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use serde_json::Value;

use crate::http::openapi;

/// The frame of the page: style and headings. `{{content}}` and `{{version}}` are filled in.
const FRAME: &str = include_str!("docs.html");

/// The page's own style is all it may use.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// How deep schemas are unfolded; ours are flat.
const MAX_DEPTH: usize = 6;

/// The page, once.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let document = serde_json::to_value(openapi()).unwrap_or_default();
    FRAME
        .replace("{{version}}", &escape(document["info"]["version"].as_str().unwrap_or_default()))
        .replace("{{content}}", &Page { document: &document }.content())
});

/// This interface, for people.
#[utoipa::path(
    get,
    path = "/docs",
    tag = "operations",
    security(("token" = [])),
    responses((status = 200, description = "This interface, for people.", content_type = "text/html"))
)]
pub(super) async fn page() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)))
        .body(PAGE.as_str())
}

/// One operation with the method and path it answers to.
struct Operation<'d> {
    method: &'d str,
    path: &'d str,
    value: &'d Value,
}

/// Writes HTML for the parts of a document.
struct Page<'d> {
    document: &'d Value,
}

impl<'d> Page<'d> {
    fn content(&self) -> String {
        let mut out = String::new();
        let by_tag = self.operations_by_tag();
        push(
            &mut out,
            format_args!("<p class=\"lead\">{}</p>", prose(&self.document["info"]["description"])),
        );
        out.push_str("<nav>");
        for tag in self.tags() {
            let name = text(&tag["name"]);
            push(&mut out, format_args!("<a href=\"#{}\">{}</a> ", anchor(name), escape(name)));
        }
        out.push_str("<a href=\"#schemas\">schemas</a></nav>");
        for tag in self.tags() {
            let name = text(&tag["name"]);
            push(
                &mut out,
                format_args!(
                    "<section id=\"{}\"><h2>{}</h2><p>{}</p>",
                    anchor(name),
                    escape(name),
                    prose(&tag["description"])
                ),
            );
            for operation in by_tag.get(name).into_iter().flatten() {
                self.operation(&mut out, operation);
            }
            out.push_str("</section>");
        }
        self.schemas(&mut out);
        out
    }

    fn tags(&self) -> impl Iterator<Item = &'d Value> {
        self.document["tags"].as_array().into_iter().flatten()
    }

    fn operations_by_tag(&self) -> BTreeMap<&'d str, Vec<Operation<'d>>> {
        let mut by_tag: BTreeMap<&str, Vec<Operation<'_>>> = BTreeMap::new();
        for (path, item) in self.document["paths"].as_object().into_iter().flatten() {
            for (method, value) in item.as_object().into_iter().flatten() {
                let operation = Operation { method, path, value };
                by_tag.entry(text(&value["tags"][0])).or_default().push(operation);
            }
        }
        by_tag
    }

    fn operation(&self, out: &mut String, operation: &Operation<'_>) {
        let Operation { method, path, value } = operation;
        let key = if value["security"].is_array() { " <span class=\"token\">token</span>" } else { "" };
        push(
            out,
            format_args!(
                "<article><h3><span class=\"method {method}\">{}</span> <code>{}</code>{key}</h3>",
                method.to_uppercase(),
                escape(path)
            ),
        );
        push(out, format_args!("<p>{}</p>", prose(&value["summary"])));
        if value["description"].is_string() {
            push(out, format_args!("<p>{}</p>", prose(&value["description"])));
        }
        self.parameters(out, &value["parameters"]);
        self.responses(out, &value["responses"]);
        out.push_str("</article>");
    }

    fn parameters(&self, out: &mut String, parameters: &Value) {
        let Some(parameters) = parameters.as_array() else { return };
        out.push_str("<h4>Parameters</h4><table><tr><th>name</th><th>in</th><th>type</th><th></th></tr>");
        for parameter in parameters {
            let needed = if parameter["required"] == true { " <em>required</em>" } else { "" };
            push(
                out,
                format_args!(
                    "<tr><td><code>{}</code>{needed}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    escape(text(&parameter["name"])),
                    escape(text(&parameter["in"])),
                    type_of(&parameter["schema"], 0),
                    prose(&parameter["description"])
                ),
            );
        }
        out.push_str("</table>");
    }

    fn responses(&self, out: &mut String, responses: &Value) {
        out.push_str("<h4>Answers</h4><table><tr><th>status</th><th>body</th><th></th></tr>");
        let mut headers: BTreeMap<&str, &Value> = BTreeMap::new();
        for (status, response) in responses.as_object().into_iter().flatten() {
            let body = response["content"].as_object().and_then(|content| content.iter().next());
            let body = body.map(|(kind, media)| match media["schema"] {
                Value::Null => escape(kind),
                ref schema => type_of(schema, 0),
            });
            push(
                out,
                format_args!(
                    "<tr><td><b>{}</b></td><td>{}</td><td>{}</td></tr>",
                    escape(status),
                    body.unwrap_or_default(),
                    prose(&response["description"])
                ),
            );
            for (name, header) in response["headers"].as_object().into_iter().flatten() {
                headers.insert(name, header);
            }
        }
        out.push_str("</table>");
        if headers.is_empty() {
            return;
        }
        out.push_str("<h4>Headers of the answers</h4><table>");
        for (name, header) in headers {
            let values = type_of(&header["schema"], 0);
            push(
                out,
                format_args!(
                    "<tr><td><code>{}</code></td><td>{}</td><td>{values}</td></tr>",
                    escape(name),
                    prose(&header["description"])
                ),
            );
        }
        out.push_str("</table>");
    }

    fn schemas(&self, out: &mut String) {
        out.push_str("<section id=\"schemas\"><h2>schemas</h2>");
        for (name, schema) in self.document["components"]["schemas"].as_object().into_iter().flatten() {
            push(
                out,
                format_args!(
                    "<article id=\"schema-{}\"><h3><code>{}</code></h3><p>{}</p>",
                    anchor(name),
                    escape(name),
                    prose(&schema["description"])
                ),
            );
            // A flattened struct becomes `allOf`.
            let parts =
                schema["allOf"].as_array().map_or_else(|| vec![schema], |parts| parts.iter().collect());
            out.push_str("<table>");
            for part in parts {
                if part["$ref"].is_string() {
                    push(
                        out,
                        format_args!("<tr><td colspan=\"3\">everything of {}</td></tr>", type_of(part, 0)),
                    );
                }
                properties(out, part);
            }
            out.push_str("</table></article>");
        }
        out.push_str("</section>");
    }
}

fn properties(out: &mut String, schema: &Value) {
    let required = schema["required"].as_array();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.is_some_and(|names| names.iter().any(|n| n == name));
        push(
            out,
            format_args!(
                "<tr><td><code>{}</code>{}</td><td>{}</td><td>{}</td></tr>",
                escape(name),
                if is_required { "" } else { " <em>optional</em>" },
                type_of(property, 0),
                prose(&property["description"])
            ),
        );
    }
}

/// A schema in a few words, with a link where it has a name.
fn type_of(schema: &Value, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return "…".into();
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return format!("<a href=\"#schema-{}\">{}</a>", anchor(name), escape(name));
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|v| format!("<code>{}</code>", escape(text(v)))).collect();
        return values.join(" ");
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[key].as_array() {
            let choices: Vec<_> = choices.iter().map(|choice| type_of(choice, depth + 1)).collect();
            return choices.join(" or ");
        }
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(text).filter(|kind| *kind != "null").collect();
            kinds.join(" or ")
        }
        _ => "any".into(),
    };
    if kind == "array" {
        return format!("list of {}", type_of(&schema["items"], depth + 1));
    }
    match schema["format"].as_str() {
        Some(format) if kind == "string" => escape(format),
        _ => escape(&kind),
    }
}

/// Text with `code` in backticks, empty lines as paragraphs and `- ` as a list.
fn prose(value: &Value) -> String {
    let mut out = String::new();
    let mut in_list = false;
    for line in text(value).lines() {
        let item = line.strip_prefix("- ");
        if item.is_some() != in_list {
            out.push_str(if in_list { "</ul>" } else { "<ul>" });
            in_list = !in_list;
        }
        match item {
            Some(item) => push(&mut out, format_args!("<li>{}</li>", inline(item))),
            None if line.is_empty() => out.push_str("<br>"),
            None => push(&mut out, format_args!("{} ", inline(line))),
        }
    }
    if in_list {
        out.push_str("</ul>");
    }
    out
}

fn inline(line: &str) -> String {
    let mut out = String::new();
    for (place, part) in line.split('`').enumerate() {
        if place % 2 == 1 {
            push(&mut out, format_args!("<code>{}</code>", escape(part)));
        } else {
            out.push_str(&escape(part));
        }
    }
    out
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn anchor(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(arguments);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_operation_and_schema_is_on_the_page() {
        let document = serde_json::to_value(openapi()).expect("a document is JSON");
        for path in document["paths"].as_object().expect("paths").keys() {
            assert!(PAGE.contains(&format!("<code>{}</code>", escape(path))), "{path} is missing");
        }
        for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
            assert!(PAGE.contains(&format!("id=\"schema-{}\"", anchor(name))), "{name} is missing");
        }
    }

    #[test]
    fn every_link_leads_somewhere() {
        for link in PAGE.split("href=\"#").skip(1) {
            let target = link.split('"').next().expect("a closing quote");
            assert!(PAGE.contains(&format!("id=\"{target}\"")), "#{target} leads nowhere");
        }
    }

    #[test]
    fn the_page_loads_nothing_and_runs_nothing() {
        for forbidden in ["<script", "src=", "http://", "https://", "@import", "url("] {
            assert!(!PAGE.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn text_of_the_document_is_never_markup() {
        assert_eq!(
            prose(&json!("a <b> & `<i>`\n- one\n- two")),
            "a &lt;b&gt; &amp; <code>&lt;i&gt;</code> <ul><li>one</li><li>two</li></ul>"
        );
    }
}
