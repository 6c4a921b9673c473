//! Every direct dependency has its reason in writing.

use std::path::Path;

#[test]
fn every_direct_dependency_has_a_line_in_the_record() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    let record = std::fs::read_to_string(root.join("docs/adr/0001-dependencies.md")).expect("the record");
    let manifest: toml::Table = toml::from_str(&manifest).expect("the manifest is TOML");

    let mut named: Vec<&str> =
        record.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut direct: Vec<&str> = ["dependencies", "dev-dependencies"]
        .iter()
        .filter_map(|section| manifest.get(*section)?.as_table())
        .flat_map(toml::Table::keys)
        .map(String::as_str)
        .collect();
    named.sort_unstable();
    direct.sort_unstable();
    assert_eq!(named, direct, "docs/adr/0001-dependencies.md and Cargo.toml differ");
}
