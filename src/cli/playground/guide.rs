//! What to try while the playground is up: lines to copy into another terminal.

use std::io;
use std::path::Path;

use super::Addresses;
use super::sender::{Order, PLAYGROUND, SHOP};
use super::site::Site;
use crate::clock;

/// What the order by hand costs.
const AMOUNT_CENTS: u32 = 1_990;

/// The text. Writes the bodies that its lines post.
pub(super) fn text(program: &Path, site: &Site, addresses: Addresses) -> io::Result<String> {
    let Addresses { public, admin } = addresses;
    let by_curl = Order::new(PLAYGROUND, "order_created", clock::new_id(), AMOUNT_CENTS);
    let signed = Order::new(SHOP, "order_created", clock::new_id(), AMOUNT_CENTS);
    let curl_body = shell(&site.write_body("order.json", &by_curl.body)?);
    let signed_body = shell(&site.write_body("signed-order.json", &signed.body)?);
    let (program, config) = (shell(program), shell(&site.config()));
    Ok(format!(
        "
The receiver stays up until you press Ctrl-C. To try in another terminal:

An order, unsigned. Run it twice and look at Hooklatch-Outcome:
  curl -i -H 'content-type: application/json' http://{public}/hooks/{PLAYGROUND} \\
    --data-binary @{curl_body}

An order, signed as the shop signs, in 50 copies, 10 at a time:
  {program} send --config {config} \\
    --source {SHOP} --repeat 50 --concurrency 10 {signed_body}

What happened to it:
  {program} events show --config {config} {event_id}

Where the first order has gone: each goes on to the packing station through the outbox.
  {program} outbox list --config {config} --state new,retry,sent
Let the packing station rest, send that order again with another id, and see it wait:
  {program} destinations pause packing --config {config} --reason lunch
  {program} destinations list --config {config}
  {program} destinations resume packing --config {config}

Metrics and the API, described:
  http://{admin}/metrics
  http://{admin}/docs

Each strategy as a handler:
  {config}
The database:
  {database}",
        event_id = signed.event_id,
        database = shell(&site.database),
    ))
}

/// A path as a shell reads it back.
fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_and_quotes_is_one_word_for_a_shell() {
        assert_eq!(shell(Path::new("/tmp/a-b_c.toml")), "/tmp/a-b_c.toml");
        assert_eq!(shell(Path::new("/tmp/it's here")), "'/tmp/it'\\''s here'");
    }
}
