//! Address of a client: the socket's peer, or the one that a trusted proxy names in `X-Forwarded-For`.

use http::HeaderMap;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The networks of proxies that are trusted to name their clients.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

/// Returns a network with every address of its family, if these networks together have them all. Ignores
/// texts that are not networks.
#[must_use]
pub fn network_of_everything(networks: &[String]) -> Option<IpNet> {
    let networks: Vec<IpNet> = networks.iter().filter_map(|text| text.trim().parse().ok()).collect();
    IpNet::aggregate(&networks).into_iter().find(|network| network.prefix_len() == 0)
}

impl TrustedProxies {
    /// Reads these networks, in CIDR notation.
    ///
    /// # Errors
    /// The text that is not a network.
    pub fn from_networks(networks: &[impl AsRef<str>]) -> Result<TrustedProxies, String> {
        let network = |text: &str| text.trim().parse::<IpNet>().map_err(|_| text.to_owned());
        let networks: Vec<IpNet> =
            networks.iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(TrustedProxies(networks.into()))
    }

    /// Returns true if the address is in one of the networks.
    #[must_use]
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the client that `X-Forwarded-For` names: the right-most address that is no trusted proxy's.
    /// The client may have forged the addresses to its left.
    #[must_use]
    pub fn forwarded_for(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let values = headers.get_all("x-forwarded-for").iter().rev();
        let entries = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
        for entry in entries.map(str::trim) {
            let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
            let address = bare.parse().or_else(|_| entry.parse::<SocketAddr>().map(|address| address.ip()));
            let Ok(address) = address else { return None };
            if !self.is_trusted(address) {
                return Some(address);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn proxies() -> TrustedProxies {
        TrustedProxies::from_networks(&["10.0.0.0/8", "fd00::/8"]).unwrap()
    }

    #[test]
    fn a_mapped_address_counts_as_ipv4() {
        assert!(proxies().is_trusted(address("::ffff:10.1.2.3")));
        assert!(!proxies().is_trusted(address("11.0.0.1")));
    }

    #[test]
    fn the_rightmost_address_that_is_no_proxys_is_the_client() {
        let named = |values: &[&'static str]| {
            let value = |value: &&'static str| {
                (http::HeaderName::from_static("x-forwarded-for"), http::HeaderValue::from_static(value))
            };
            proxies().forwarded_for(&values.iter().map(value).collect())
        };
        let of = |text| Some(address(text));
        assert_eq!(named(&["192.0.2.1"]), of("192.0.2.1"));
        assert_eq!(named(&["1.2.3.4, 192.0.2.1, 10.0.0.7"]), of("192.0.2.1"));
        assert_eq!(named(&["1.2.3.4", "192.0.2.1,fd00::1"]), of("192.0.2.1"));
        assert_eq!(named(&["192.0.2.1:5000"]), of("192.0.2.1"));
        assert_eq!(named(&["[2001:db8::1]:443"]), of("2001:db8::1"));
        for none in [&[][..], &["10.0.0.1"], &["192.0.2.1, unknown"], &[""]] {
            assert_eq!(named(none), None, "{none:?}");
        }
    }
}
