//! The address of a listener, as `host:port` with a numeric host.

use serde::{Deserialize, Deserializer, de};

/// For `#[serde(with = "address")]`: an error that shows what an address looks like.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<std::net::SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        de::Error::custom(format!(
            "{text:?} is not an address with a port; write one such as \"127.0.0.1:8080\""
        ))
    })
}
