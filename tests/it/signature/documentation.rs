//! What `docs/providers.md` says of the presets is what the code does, and its example works.

use std::path::Path;

use hooklatch::config::{Config, Environment};
use hooklatch::signature::{Contract, Preset};

const BEGIN: &str = "<!-- presets: begin -->\n";
const END: &str = "<!-- presets: end -->";

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/providers.md");
    std::fs::read_to_string(path).expect("the page").replace("\r\n", "\n")
}

fn table() -> String {
    let mut rows = String::from(
        "| `scheme` | sender | signs | tolerance | event id | type | items | retries for | answers | handshake |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let places = |places: &[&str]| match places {
        [] => "–".to_owned(),
        places => places
            .iter()
            .map(|place| format!("`{}`", place.replace('|', "\\|")))
            .collect::<Vec<_>>()
            .join(" `:` "),
    };
    for preset in Preset::all() {
        let envelope = &preset.envelope;
        let hours = |time: std::time::Duration| match time.as_secs() / 3600 {
            hours if hours % 24 == 0 && hours > 24 => format!("{} days", hours / 24),
            hours => format!("{hours} h"),
        };
        let cells = [
            format!("`{}`", preset.scheme),
            preset.sender.to_owned(),
            preset.way_in_words(),
            preset.tolerance().map_or("–".to_owned(), |time| format!("{} s", time.as_secs())),
            places(envelope.event_id),
            places(envelope.event_type),
            envelope.items.map_or("–".to_owned(), |items| format!("`\"{items}\"`")),
            preset.retry_horizon.map_or("not known".to_owned(), hours),
            answers(&preset.contract),
            preset.handshake.in_words().to_owned(),
        ];
        rows.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    rows
}

fn answers(contract: &Contract) -> String {
    let mut parts = Vec::new();
    if !contract.success.is_empty() {
        let statuses: Vec<_> = contract.success.iter().map(u16::to_string).collect();
        parts.push(format!("success is {}", statuses.join(", ")));
    }
    if contract.rejection != Contract::USUAL.rejection {
        parts.push(format!("{} stops retries", contract.rejection));
    }
    if let Some((name, value)) = contract.stop_retrying {
        parts.push(format!("`{name}: {value}` stops retries"));
    }
    if contract.bodiless {
        parts.push("no body".to_owned());
    }
    if parts.is_empty() { "2xx".to_owned() } else { parts.join("; ") }
}

#[test]
fn the_table_of_presets_is_what_the_code_says() {
    let page = page();
    let (_, rest) = page.split_once(BEGIN).expect("the table's begin");
    let (shown, _) = rest.split_once(END).expect("the table's end");
    assert_eq!(shown, table(), "docs/providers.md is behind; put the right side between its marks");
}

#[test]
fn every_configuration_on_the_page_can_be_used() {
    let page = page();
    let blocks: Vec<_> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 6, "the examples were not found");
    let environment: Environment = [
        "STRIPE_SECRET",
        "STRIPE_SECRET_OLD",
        "ACME_SECRET",
        "GITHUB_SECRET",
        "APP_SECRET",
        "VERIFY_TOKEN",
        "TOKEN",
    ]
    .map(|name| (name, "a secret of a test"))
    .into_iter()
    .collect();
    for block in blocks {
        let config = Config::parse("docs/providers.md", block, &environment);
        assert!(config.is_ok(), "{block}\n{}", config.unwrap_err());
    }
}
