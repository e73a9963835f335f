//! Host names.

use std::net::IpAddr;

/// Returns true for a name or address of this machine. Traffic to it crosses no network.
#[must_use]
pub fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns true for a URL with the scheme `http` of another machine: what is sent to it can be read on the way.
#[must_use]
pub fn is_sent_unencrypted(url: &str) -> bool {
    let Some(host) = url.strip_prefix("http://").and_then(|rest| rest.split(['/', '?']).next()) else {
        return false;
    };
    // The colons of an IPv6 address are in brackets.
    let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    !is_local(port.map_or(host, |(host, _)| host))
}

#[cfg(test)]
mod tests {
    use super::{is_local, is_sent_unencrypted};

    #[test]
    fn only_http_to_another_machine_is_unencrypted() {
        for url in [
            "http://db",
            "http://10.0.0.1:8123/path",
            "http://[2001:db8::1]:8123",
            "http://localhost.example.com?x",
        ] {
            assert!(is_sent_unencrypted(url), "{url}");
        }
        for url in [
            "https://db",
            "http://localhost:9000",
            "http://127.0.0.1/x",
            "http://[::1]:8123",
            "http://[::1]",
            "db",
            "",
        ] {
            assert!(!is_sent_unencrypted(url), "{url}");
        }
    }

    #[test]
    fn loopback_addresses_are_local() {
        assert!(["localhost", "127.0.0.1", "127.8.0.1", "::1", "[::1]"].into_iter().all(is_local));
        assert!(!["db", "10.0.0.1", "localhost.example.com", "", "0.0.0.0"].into_iter().any(is_local));
    }
}
