//! The URL of a broker: which broker, where, and as whom.

use std::fmt;

use reqwest::Url;

/// Which broker a URL leads to, by its scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerKind {
    /// RabbitMQ, or another that speaks AMQP 0-9-1.
    Amqp,
    /// NATS with JetStream.
    Nats,
    Kafka,
}

impl BrokerKind {
    /// `None`: the scheme is no broker's.
    #[must_use]
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "amqp" | "amqps" => Some(Self::Amqp),
            "nats" | "tls" => Some(Self::Nats),
            "kafka" => Some(Self::Kafka),
            _ => None,
        }
    }

    /// The cargo feature that brings it.
    #[must_use]
    pub fn feature(self) -> &'static str {
        match self {
            Self::Amqp => "amqp",
            Self::Nats => "nats",
            Self::Kafka => "kafka",
        }
    }

    /// Whether this program was built with it.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::Amqp => cfg!(feature = "amqp"),
            Self::Nats => cfg!(feature = "nats"),
            Self::Kafka => cfg!(feature = "kafka"),
        }
    }
}

/// The URL of a broker.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerUrl(Url);

impl BrokerUrl {
    /// Reads a URL whose scheme is a broker's.
    ///
    /// # Errors
    /// What is wrong, and the way out.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url =
            Url::parse(text).map_err(|_| "this is not a URL; write SCHEME://USER:PASSWORD@HOST:PORT")?;
        let Some(kind) = BrokerKind::of_scheme(url.scheme()) else {
            return Err(format!(
                "{:?} is no broker's scheme; write amqp, amqps, nats, tls or kafka",
                url.scheme()
            ));
        };
        if !kind.is_built_in() {
            return Err(format!(
                "this program was built without {:?}; build it with `cargo build --release --features {}`",
                url.scheme(),
                kind.feature()
            ));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("there is no host in it; write {}://HOST", url.scheme()));
        }
        Ok(Self(url))
    }

    #[must_use]
    pub fn kind(&self) -> BrokerKind {
        // `parse` let nothing else through.
        BrokerKind::of_scheme(self.0.scheme()).unwrap_or(BrokerKind::Amqp)
    }

    /// `amqp`, `amqps`, `nats`, `tls` or `kafka`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.scheme()
    }

    #[must_use]
    pub fn has_password(&self) -> bool {
        self.0.password().is_some()
    }

    /// Scheme, host and port: what may be shown.
    #[must_use]
    pub fn place(&self) -> String {
        let port = self.0.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.0.scheme(), self.0.host_str().unwrap_or_default())
    }

    /// With its secrets, for whoever connects.
    #[cfg(any(feature = "amqp", feature = "nats", feature = "kafka"))]
    pub(crate) fn expose(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrokerUrl({})", self.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_url_has_no_secret() {
        let url = BrokerUrl::parse("amqps://shop:s3cret@rabbit.example:5671/orders?x=s3cret").expect("a URL");
        assert_eq!(url.place(), "amqps://rabbit.example:5671");
        assert!(!format!("{url:?}").contains("s3cret"));
        assert!(url.has_password());
    }

    #[test]
    fn a_url_that_leads_to_no_broker_is_refused_with_the_way_out() {
        for (text, way_out) in [
            ("rabbit", "write SCHEME://"),
            ("redis://localhost", "write amqp"),
            ("amqp:///vhost", "write amqp://HOST"),
        ] {
            let error = BrokerUrl::parse(text).expect_err(text);
            assert!(error.contains(way_out), "{error}");
        }
    }
}
