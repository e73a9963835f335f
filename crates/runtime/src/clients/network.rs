//! Networks of clients, which share limits.

use std::net::{IpAddr, Ipv6Addr};

/// Network of one client: an IPv4 address, or the first 64 bits of an IPv6 address, which is the range of one
/// subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpAddr);

impl Network {
    /// Returns the network of an address.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(address) => Network(address.into()),
            IpAddr::V6(address) => Network(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_counts_by_64_bits_and_ipv4_by_address() {
        let of = |text: &str| Network::from_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
