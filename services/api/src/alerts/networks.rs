//! Which addresses a tenant may have messages sent to: those of the internet, and what the operator allows. Without
//! this, a rule could reach what only the service can: its neighbours, and the metadata of its cloud.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that messages may go to beside the internet.
#[derive(Clone, Debug, Default)]
pub struct AllowedNetworks(Vec<IpNet>);

impl AllowedNetworks {
    /// Reads networks such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// The text that is none.
    pub fn read(texts: &[String]) -> Result<AllowedNetworks, String> {
        let networks = texts.iter().map(|text| text.parse().map_err(|_| text.clone()));
        networks.collect::<Result<_, _>>().map(AllowedNetworks)
    }

    /// True where there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True for an address that messages may go to.
    #[must_use]
    pub fn allow(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.0.iter().any(|network| network.contains(&address))
    }
}

/// True for an address of the internet, by the IANA's registries of special-purpose addresses.
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

/// Only what is allocated for unicast, and none that stands for an address of IPv4: it may be translated on the way.
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
        let networks = AllowedNetworks::read(&["10.1.0.0/16".to_owned(), "fd00::/8".to_owned()]).unwrap();
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
            assert_eq!(networks.allow(address.parse().unwrap()), allowed, "{address}");
        }
        assert_eq!(AllowedNetworks::read(&["ten".to_owned()]).unwrap_err(), "ten");
    }
}
