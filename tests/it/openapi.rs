//! `api/openapi.json` is the document that the program serves.

/// Where the copy lives, from the root of the package.
const COPY: &str = "api/openapi.json";

#[test]
fn the_openapi_file_is_what_the_program_serves() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(COPY);
    let served = hooklatch::http::openapi().to_pretty_json().expect("a document is JSON");
    let copy = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        copy.trim_end() == served.trim_end(),
        "{COPY} is out of date; write it again with `cargo run -- openapi > {COPY}`"
    );
}
