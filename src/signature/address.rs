//! Who may send, by network address.
//!
//! Behind a proxy, the other end of the connection is the proxy. Its `X-Forwarded-For` is believed
//! only if the proxy itself is configured as trusted, and only as far as trusted proxies wrote it:
//! read from the right, the first address that is no trusted proxy is the sender's.

use std::net::IpAddr;

use super::config::{VerifyConfig, VerifyConfigError};
use super::knob_check::bad;
use super::refusal::Refusal;
use crate::event::RawRequest;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Most networks of one list: each is compared with each delivery.
const MAX_NETWORKS: usize = 256;

/// The networks that may send, and the proxies that tell.
#[derive(Clone, Debug)]
pub(super) struct AllowList {
    allowed: Vec<Network>,
    proxies: Vec<Network>,
}

impl AllowList {
    /// `None` when everyone may send.
    pub(super) fn new(config: &VerifyConfig) -> Result<Option<Self>, VerifyConfigError> {
        let allowed = networks("allow_ips", &config.allow_ips)?;
        let proxies = networks("trusted_proxies", &config.trusted_proxies)?;
        if allowed.is_empty() {
            if !proxies.is_empty() {
                return Err(bad(
                    "trusted_proxies",
                    "has no meaning without allow_ips; add it, or remove this",
                ));
            }
            return Ok(None);
        }
        Ok(Some(Self { allowed, proxies }))
    }

    pub(super) fn check(&self, peer: Option<IpAddr>, request: &RawRequest) -> Result<(), Refusal> {
        let address = self.sender(peer.ok_or(Refusal::NoAddress)?, request)?;
        if self.allowed.iter().any(|network| network.contains(address)) {
            return Ok(());
        }
        Err(Refusal::Address { address })
    }

    fn sender(&self, peer: IpAddr, request: &RawRequest) -> Result<IpAddr, Refusal> {
        let is_proxy = |address: IpAddr| self.proxies.iter().any(|network| network.contains(address));
        let mut sender = peer.to_canonical();
        let values: Vec<_> = request.header_values(FORWARDED_FOR).collect();
        let hops = values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
        for hop in hops {
            if !is_proxy(sender) {
                return Ok(sender);
            }
            let hop = std::str::from_utf8(hop).ok().and_then(|hop| address(hop.trim()));
            sender = hop.ok_or_else(|| Refusal::MalformedHeader {
                header: FORWARDED_FOR.to_owned(),
                problem: "a trusted proxy passed on what is no address",
            })?;
        }
        Ok(sender)
    }
}

/// An address, with or without a port, as proxies write it.
fn address(text: &str) -> Option<IpAddr> {
    let parsed =
        text.parse().ok().or_else(|| text.parse().ok().map(|socket: std::net::SocketAddr| socket.ip()));
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    parsed.or_else(in_brackets).map(|address: IpAddr| address.to_canonical())
}

/// An address and how many of its leading bits count.
#[derive(Clone, Copy, Debug)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { std::net::Ipv4Addr::BITS } else { std::net::Ipv6Addr::BITS };
        let bits = bits.unwrap_or(longest);
        (bits <= longest).then_some(Self { address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

fn networks(key: &'static str, texts: &[String]) -> Result<Vec<Network>, VerifyConfigError> {
    if texts.len() > MAX_NETWORKS {
        return Err(bad(key, format!("names more than {MAX_NETWORKS} networks; join them")));
    }
    let parsed = texts.iter().map(|text| {
        Network::parse(text).ok_or_else(|| {
            bad(key, format!("has {text:?}, which is no network; write \"192.0.2.0/24\" or \"2001:db8::1\""))
        })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn list(allow: &[&str], proxies: &[&str]) -> AllowList {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let config = VerifyConfig {
            allow_ips: texts(allow),
            trusted_proxies: texts(proxies),
            ..VerifyConfig::default()
        };
        AllowList::new(&config).unwrap().unwrap()
    }

    fn from(peer: &str, forwarded: &[&str]) -> (Option<IpAddr>, RawRequest) {
        let headers = forwarded.iter().map(|value| (FORWARDED_FOR, value));
        let request = RawRequest { target: "/".into(), headers: headers.collect(), body: Bytes::new() };
        (peer.parse().ok(), request)
    }

    #[test]
    fn only_the_listed_networks_may_send() {
        let list = list(&["192.0.2.0/25", "2001:db8::/32", "198.51.100.7"], &[]);
        for (peer, may) in [
            ("192.0.2.0", true),
            ("192.0.2.127", true),
            ("192.0.2.128", false),
            ("::ffff:192.0.2.1", true),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
            ("198.51.100.7", true),
            ("198.51.100.8", false),
        ] {
            let (peer, request) = from(peer, &["192.0.2.1"]);
            assert_eq!(list.check(peer, &request).is_ok(), may, "{peer:?}");
        }
        assert_eq!(list.check(None, &from("", &[]).1), Err(Refusal::NoAddress));
    }

    #[test]
    fn a_forwarded_address_counts_only_as_far_as_trusted_proxies_wrote_it() {
        let list = list(&["192.0.2.1"], &["10.0.0.0/8"]);
        for (peer, forwarded, may) in [
            ("10.0.0.1", &["192.0.2.1"][..], true),
            ("10.0.0.1", &["192.0.2.1, 10.0.0.2"], true),
            ("10.0.0.1", &["192.0.2.1", "10.0.0.2"], true),
            ("10.0.0.1", &["192.0.2.1:4711"], true),
            ("10.0.0.1", &["192.0.2.1, 203.0.113.5"], false),
            ("10.0.0.1", &[], false),
            ("10.0.0.1", &["192.0.2.1, nonsense"], false),
            ("203.0.113.5", &["192.0.2.1"], false),
            ("192.0.2.1", &["203.0.113.5"], true),
        ] {
            let (peer, request) = from(peer, forwarded);
            assert_eq!(list.check(peer, &request).is_ok(), may, "{peer:?} {forwarded:?}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "192.0.2.0/33", "192.0.2", "::/129", "example.com", "1.2.3.4/x", "1.2.3.4/"] {
            assert!(Network::parse(text).is_none(), "{text}");
        }
    }
}
