//! Guard of requests to addresses that tenants name: addresses of the internet on port 443, and the networks and ports
//! that the operator allows. Without it, a tenant could reach servers that only the service can reach: its neighbours,
//! and the metadata of its cloud. Every address is checked after it is looked up and before the connection, and
//! redirects are not followed.

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use unslide_model::Secret;

/// The port of HTTPS, which is always allowed.
const HTTPS_PORT: u16 = 443;

/// The servers that requests may be sent to.
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

    /// Returns true for an address that requests may go to with TLS.
    #[must_use]
    pub fn allow_address(&self, address: IpAddr) -> bool {
        is_public(address.to_canonical()) || self.has_in_networks(address)
    }

    /// Returns true for a port that requests may go to.
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

/// Checks that requests may be sent to a URL, as far as that is known before its name is looked up. `section` is the section
/// of the settings with `networks` and `ports`.
///
/// # Errors
/// Returns what is wrong with it, for the tenant, without the name of a field.
pub fn check_url(address: &Secret, receivers: &AllowedReceivers, section: &str) -> Result<Url, String> {
    let url = Url::parse(address.reveal()).map_err(|error| format!("not a URL: {error}"))?;
    let is_plain = url.scheme() == "http" && receivers.has_networks();
    let host = url.host_str().ok_or("the URL has no host")?;
    let port = url.port_or_known_default().unwrap_or_default();
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
    // All at once: each change of the settings takes a restart.
    let mut wrong = Vec::new();
    if url.scheme() != "https" && !is_plain {
        wrong.push(format!(
            "a URL that begins with https://. The operator can allow plain HTTP within networks of its own with \
             {section}.networks."
        ));
    } else if literal.is_ok_and(|literal| !is_allowed(receivers, literal, is_plain)) {
        wrong.push(not_allowed(host, section));
    }
    if !receivers.allow_port(port) {
        wrong.push(port_not_allowed(port, section));
    }
    if wrong.is_empty() { Ok(url) } else { Err(wrong.join(" Besides, ")) }
}

/// Checks that a connection with TLS may go to a host and a port, as far as that is known before the name is looked up. `section` is as in
/// [`check_url`].
///
/// # Errors
/// Returns what is wrong with them, for the tenant, without the name of a field.
pub fn check_host(host: &str, port: u16, receivers: &AllowedReceivers, section: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    if host.parse::<IpAddr>().is_ok_and(|literal| !receivers.allow_address(literal)) {
        wrong.push(not_allowed(host, section));
    }
    if !receivers.allow_port(port) {
        wrong.push(port_not_allowed(port, section));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join(" Besides, ")) }
}

/// Connects to a host for TLS. Every address is checked after the name is looked up. `section` is as in [`check_url`].
///
/// # Errors
/// The host or the port is not allowed, has no address, or does not answer. No error is for the tenant.
pub async fn connect_host(
    host: &str,
    port: u16,
    receivers: &AllowedReceivers,
    section: &str,
) -> std::io::Result<TcpStream> {
    check_host(host, port, receivers, section).map_err(std::io::Error::other)?;
    let found = tokio::net::lookup_host((host, port)).await?;
    let allowed: Vec<SocketAddr> = found.filter(|address| receivers.allow_address(address.ip())).collect();
    if allowed.is_empty() {
        return Err(std::io::Error::other(not_allowed(host, section)));
    }
    TcpStream::connect(allowed.as_slice()).await
}

fn port_not_allowed(port: u16, section: &str) -> String {
    format!("port {port} is not allowed. The operator can allow it with {section}.ports.")
}

fn is_allowed(receivers: &AllowedReceivers, address: IpAddr, is_plain: bool) -> bool {
    if is_plain { receivers.has_in_networks(address) } else { receivers.allow_address(address) }
}

fn not_allowed(host: &str, section: &str) -> String {
    format!("{host} is not an address of the internet. The operator can allow it with {section}.networks.")
}

/// An HTTP client that connects to allowed addresses only, and follows no redirect.
#[derive(Clone, Debug)]
pub struct GuardedClient {
    receivers: AllowedReceivers,
    section: &'static str,
    /// Reaches the internet and the operator's networks.
    https: Client,
    /// Reaches the operator's networks only, which may have no certificates.
    plain_http: Client,
}

impl GuardedClient {
    /// Makes the client. `timeout` bounds a request from the name's look-up to the answer's end, `section` is as in
    /// [`check_url`].
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(
        receivers: AllowedReceivers,
        section: &'static str,
        timeout: Duration,
    ) -> Result<GuardedClient, reqwest::Error> {
        // There may be one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |is_plain| {
            Client::builder()
                .dns_resolver(CheckedResolver { receivers: receivers.clone(), is_plain, section })
                .redirect(Policy::none())
                .no_proxy()
                .timeout(timeout)
                .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")))
                .build()
        };
        Ok(GuardedClient { https: client(false)?, plain_http: client(true)?, receivers, section })
    }

    /// Begins a request to an address.
    ///
    /// # Errors
    /// As [`check_url`].
    pub fn start_request(&self, method: Method, address: &Secret) -> Result<RequestBuilder, String> {
        let url = check_url(address, &self.receivers, self.section)?;
        let client = if url.scheme() == "http" { &self.plain_http } else { &self.https };
        Ok(client.request(method, url))
    }

    /// Returns true if the answer came from one of the operator's networks. Without an address, nothing says that the server
    /// is a stranger.
    #[must_use]
    pub fn is_in_networks(&self, answer: &Response) -> bool {
        answer.remote_addr().is_none_or(|address| self.receivers.has_in_networks(address.ip()))
    }
}

/// Reads the body of an answer. Returns `None` if it has more than `limit` bytes; the rest is not read then.
///
/// # Errors
/// The connection ends before the body does.
pub async fn read_answer_body(answer: &mut Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Reads the seconds of `Retry-After`. Returns `None` without the header, and for a date.
#[must_use]
pub fn read_retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// Looks names up, and returns only addresses that may be connected to.
struct CheckedResolver {
    receivers: AllowedReceivers,
    is_plain: bool,
    section: &'static str,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (receivers, is_plain, section) = (self.receivers.clone(), self.is_plain, self.section);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| is_allowed(&receivers, address.ip(), is_plain)).collect();
            if allowed.is_empty() {
                return Err(not_allowed(name.as_str(), section).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
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

    #[test]
    fn addresses_that_may_not_be_reached_are_named() {
        let none = AllowedReceivers::default();
        let own = AllowedReceivers::from_networks(&["127.0.0.0/8".to_owned()], &[8_080]).unwrap();
        for (fine, address, networks) in [
            (true, "https://example.com/hook", &none),
            (false, "http://example.com/hook", &none),
            (true, "http://127.0.0.1:8080/hook", &own),
            (false, "http://127.0.0.1/hook", &own),
            (false, "http://93.184.215.14:8080/hook", &own),
            (true, "https://93.184.215.14:8080/hook", &own),
            (false, "https://example.com:8080/hook", &none),
            (false, "https://example.com:22/hook", &own),
            (false, "https://127.0.0.1/hook", &none),
            (false, "https://[::1]/hook", &own),
            (false, "https://2130706433/hook", &none),
            (false, "file:///etc/passwd", &own),
            (false, "hook", &none),
        ] {
            assert_eq!(check_url(&Secret::new(address), networks, "api.hooks").is_ok(), fine, "{address}");
        }
        let both = check_url(&Secret::new("http://127.0.0.1:8080/hook"), &none, "api.hooks").unwrap_err();
        assert!(both.contains("api.hooks.networks") && both.contains("api.hooks.ports"), "{both}");
    }

    #[tokio::test]
    async fn a_connection_goes_to_allowed_hosts_only() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = AllowedReceivers::from_networks(&["127.0.0.0/8".to_owned()], &[port]).unwrap();
        let no_port = AllowedReceivers::from_networks(&["127.0.0.0/8".to_owned()], &[]).unwrap();
        let no_network = AllowedReceivers::from_networks(&[], &[port]).unwrap();
        for (is_reached, host, receivers) in [
            (true, "127.0.0.1", &own),
            (true, "localhost", &own),
            (false, "127.0.0.1", &no_port),
            (false, "127.0.0.1", &no_network),
            (false, "localhost", &no_network),
        ] {
            let connected = connect_host(host, port, receivers, "api.hooks").await;
            assert_eq!(connected.is_ok(), is_reached, "{host}: {connected:?}");
        }
        let both = check_host("10.0.0.1", 25, &AllowedReceivers::default(), "api.hooks").unwrap_err();
        assert!(both.contains("api.hooks.networks") && both.contains("api.hooks.ports"), "{both}");
    }
}
