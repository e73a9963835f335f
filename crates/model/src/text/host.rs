//! Host names.

use std::net::IpAddr;

/// Returns true for a name or address of this machine. Traffic to it crosses no network.
#[must_use]
pub fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn loopback_addresses_are_local() {
        assert!(["localhost", "127.0.0.1", "127.8.0.1", "::1", "[::1]"].into_iter().all(is_local));
        assert!(!["db", "10.0.0.1", "localhost.example.com", "", "0.0.0.0"].into_iter().any(is_local));
    }
}
