//! The receivers that a tenant may name: addresses of the internet on port 443, and the networks and ports
//! that the operator allows. Without this, a rule could reach servers that only the service can reach: its
//! neighbours, and the metadata of its cloud.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port of HTTPS, which is always allowed.
const HTTPS_PORT: u16 = 443;

/// The receivers that messages may be posted to.
#[derive(Clone, Debug, Default)]
pub struct AllowedReceivers {
    networks: Vec<IpNet>,
    ports: Vec<u16>,
}

impl AllowedReceivers {
    /// Reads networks such as `10.0.0.0/8`, and the ports that are allowed besides 443.
    ///
    /// # Errors
    /// Returns the text that is not a network.
    pub fn from_networks(networks: &[String], ports: &[u16]) -> Result<AllowedReceivers, String> {
        let networks = networks.iter().map(|text| text.parse().map_err(|_| text.clone()));
        Ok(AllowedReceivers { networks: networks.collect::<Result<_, _>>()?, ports: ports.to_vec() })
    }

    /// Returns true if the operator has allowed networks of its own.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Returns true for an address in one of the operator's networks. Only these are reached without TLS.
    #[must_use]
    pub fn has_in_networks(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Returns true for an address that messages may go to with TLS.
    #[must_use]
    pub fn allow_address(&self, address: IpAddr) -> bool {
        is_public(address.to_canonical()) || self.has_in_networks(address)
    }

    /// Returns true for a port that messages may go to.
    #[must_use]
    pub fn allow_port(&self, port: u16) -> bool {
        port == HTTPS_PORT || self.ports.contains(&port)
    }
}

/// Returns true for an address of the internet, by the IANA's registries of special-purpose addresses.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || (a == 100 && b & 0xC0 == 64)
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && b & 0xFE == 18)
        || a >= 224;
    !special
}

/// Returns true only for addresses that are allocated for unicast and do not embed an IPv4 address. An
/// embedded one may be translated on the way.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let unicast = a & 0xE000 == 0x2000;
    let special = a == 0x2002 || (a == 0x2001 && (b < 0x0200 || b == 0x0DB8)) || (a == 0x3FFF && b < 0x1000);
    unicast && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_internet_and_what_is_allowed_is_reached() {
        let networks = ["10.1.0.0/16".to_owned(), "fd00::/8".to_owned()];
        let receivers = AllowedReceivers::from_networks(&networks, &[8_443]).unwrap();
        for (allowed, address) in [
            (true, "93.184.215.14"),
            (true, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"),
            (true, "10.1.2.3"),
            (true, "::ffff:10.1.2.3"),
            (true, "fd12::1"),
            (false, "10.2.0.1"),
            (false, "127.0.0.1"),
            (false, "0.0.0.0"),
            (false, "169.254.169.254"),
            (false, "::ffff:169.254.169.254"),
            (false, "64:ff9b::a9fe:a9fe"),
            (false, "2002:a9fe:a9fe::1"),
            (false, "100.100.100.200"),
            (false, "192.168.1.1"),
            (false, "198.18.0.1"),
            (false, "224.0.0.1"),
            (false, "255.255.255.255"),
            (false, "::1"),
            (false, "::"),
            (false, "fe80::1"),
            (false, "fc00::1"),
            (false, "2001:db8::1"),
        ] {
            assert_eq!(receivers.allow_address(address.parse().unwrap()), allowed, "{address}");
        }
        for (allowed, port) in [(true, 443), (true, 8_443), (false, 80), (false, 22)] {
            assert_eq!(receivers.allow_port(port), allowed, "{port}");
        }
        assert!(receivers.has_in_networks("10.1.2.3".parse().unwrap()));
        assert!(!receivers.has_in_networks("93.184.215.14".parse().unwrap()));
        assert_eq!(AllowedReceivers::from_networks(&["ten".to_owned()], &[]).unwrap_err(), "ten");
    }
}
