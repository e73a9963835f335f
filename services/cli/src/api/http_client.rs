//! The HTTP client of commands.

use super::CONNECT_TIMEOUT;
use reqwest::{Client, ClientBuilder, Url};
use std::net::IpAddr;

/// Returns the builder of a client for a server. A server on this machine is reached without the proxy that the environment
/// names: the proxy would look for the server on its own machine.
pub(super) fn client_builder(server: &str) -> ClientBuilder {
    // The second time there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")));
    if is_on_this_machine(server) { builder.no_proxy() } else { builder }
}

fn is_on_this_machine(server: &str) -> bool {
    let Ok(url) = Url::parse(server) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_this_machine_are_recognised() {
        for local in
            ["http://127.0.0.1:8080", "http://127.1.2.3/i/key", "http://[::1]:8080", "http://localhost:8080/"]
        {
            assert!(is_on_this_machine(local), "{local}");
        }
        for remote in
            ["https://crashes.example.com", "http://10.0.0.1", "http://localhost.example.com", "no URL"]
        {
            assert!(!is_on_this_machine(remote), "{remote}");
        }
    }
}
