//! The address at which a listener of this machine is reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the address at which a listener of this machine is reached. For one that listens everywhere it is
/// at loopback.
pub fn reachable_address(listen: SocketAddr) -> SocketAddr {
    let address = match listen.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(address, listen.port())
}

#[cfg(test)]
mod tests {
    use super::reachable_address;

    #[test]
    fn a_listener_on_every_address_is_asked_at_loopback() {
        let asked = |listen: &str| reachable_address(listen.parse().unwrap()).to_string();
        assert_eq!(asked("0.0.0.0:9464"), "127.0.0.1:9464");
        assert_eq!(asked("[::]:9464"), "[::1]:9464");
        assert_eq!(asked("10.0.0.7:1"), "10.0.0.7:1");
    }
}
