//! The HTTP client for receivers, which are strangers: every address is checked after it is looked up and before the
//! connection, redirects are not followed, and little of an answer is read.

use super::channels::AlertRequest;
use super::networks::AllowedReceivers;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use unslide_model::Secret;

/// How long a receiver has, from the name's look-up to the answer's end. Shorter than the lease of a message.
const RECEIVER_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer that are read.
const LONGEST_ANSWER: usize = 16 << 10;

pub struct HttpSender {
    /// Reaches the internet and the operator's networks.
    https: Client,
    /// Reaches the operator's networks only, which may have no certificates.
    plain_http: Client,
    receivers: AllowedReceivers,
}

/// The answer of a receiver.
pub struct ReceiverAnswer {
    pub status: u16,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// True if the receiver is in one of the operator's networks. A tenant does not read its answer.
    pub is_in_networks: bool,
}

/// The reason for which there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The URL may not be posted to. The text is for the tenant.
    #[error("{0}")]
    Address(String),
    /// The receiver was not reached or did not answer. One text for all causes: it tells a tenant nothing
    /// about names in the operator's DNS, nor about open ports. The cause is for the operator's log; it names
    /// no path.
    #[error("The receiver cannot be reached or does not answer; the operator's log says why")]
    Unreachable(#[source] reqwest::Error),
}

/// Checks that messages may be posted to a URL, as far as that is known before its name is looked up.
///
/// # Errors
/// Returns what is wrong with it, for the tenant.
pub fn check_url(address: &Secret, receivers: &AllowedReceivers) -> Result<Url, String> {
    let url = Url::parse(address.reveal()).map_err(|error| format!("address: not a URL: {error}"))?;
    let is_plain = url.scheme() == "http" && receivers.has_networks();
    if url.scheme() != "https" && !is_plain {
        return Err("address: a URL that begins with https://. The operator can allow plain HTTP within networks of its \
                    own with api.alerts.networks."
            .to_owned());
    }
    let host = url.host_str().ok_or("address: the URL has no host")?;
    let port = url.port_or_known_default().unwrap_or_default();
    if !receivers.allow_port(port) {
        return Err(format!(
            "address: port {port} is not allowed. The operator can allow it with api.alerts.ports."
        ));
    }
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if literal.is_ok_and(|literal| !is_allowed(receivers, literal, is_plain)) {
        return Err(not_allowed(host));
    }
    Ok(url)
}

fn is_allowed(receivers: &AllowedReceivers, address: IpAddr, is_plain: bool) -> bool {
    if is_plain { receivers.has_in_networks(address) } else { receivers.allow_address(address) }
}

fn not_allowed(host: &str) -> String {
    format!("{host} is not an address of the internet. The operator can allow it with api.alerts.networks.")
}

impl HttpSender {
    /// Makes the clients.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(receivers: AllowedReceivers) -> Result<HttpSender, reqwest::Error> {
        // There may be one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |is_plain| {
            Client::builder()
                .dns_resolver(CheckedResolver { receivers: receivers.clone(), is_plain })
                .redirect(Policy::none())
                .no_proxy()
                .timeout(RECEIVER_TIMEOUT)
                .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")))
                .build()
        };
        Ok(HttpSender { https: client(false)?, plain_http: client(true)?, receivers })
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Errors
    /// Returns the reason for which there is no answer, without the URL, which is a secret.
    pub async fn post_request(&self, request: &AlertRequest) -> Result<ReceiverAnswer, PostError> {
        let url = check_url(&request.url, &self.receivers).map_err(PostError::Address)?;
        let client = if url.scheme() == "http" { &self.plain_http } else { &self.https };
        let mut sent = client.post(url).header("content-type", request.content_type.as_str());
        for (name, value) in &request.headers {
            sent = sent.header(*name, value);
        }
        let unreachable = |error: reqwest::Error| PostError::Unreachable(error.without_url());
        let mut answer = sent.body(request.body.clone()).send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while body.len() < LONGEST_ANSWER
            && let Some(chunk) = answer.chunk().await.map_err(unreachable)?
        {
            let left = LONGEST_ANSWER - body.len();
            body.extend_from_slice(chunk.get(..left).unwrap_or(&chunk));
        }
        // Without an address, nothing says that the receiver is a stranger.
        let address = answer.remote_addr();
        let is_in_networks = address.is_none_or(|address| self.receivers.has_in_networks(address.ip()));
        Ok(ReceiverAnswer { status: answer.status().as_u16(), body, is_in_networks })
    }
}

/// Looks names up, and returns only addresses that may be connected to.
struct CheckedResolver {
    receivers: AllowedReceivers,
    is_plain: bool,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (receivers, is_plain) = (self.receivers.clone(), self.is_plain);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| is_allowed(&receivers, address.ip(), is_plain)).collect();
            if allowed.is_empty() {
                return Err(not_allowed(name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::rules::TemplateType;

    #[test]
    fn addresses_that_cannot_be_posted_to_are_named() {
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
            assert_eq!(check_url(&Secret::new(address), networks).is_ok(), fine, "{address}");
        }
    }

    fn request(url: &str) -> AlertRequest {
        let (url, body) = (Secret::new(url), String::new());
        AlertRequest { url, headers: Vec::new(), content_type: TemplateType::Json, body }
    }

    /// A port on which nothing listens, and one whose server is no HTTP server.
    #[tokio::test]
    async fn a_tenant_cannot_tell_why_a_receiver_is_not_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = |listener: &tokio::net::TcpListener| listener.local_addr().unwrap().port();
        let (odd, closed) = (port(&listener), port(&closed));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.try_write(b"SSH-2.0-odd\r\n");
            }
        });
        let receivers = AllowedReceivers::from_networks(&["127.0.0.0/8".to_owned()], &[odd, closed]).unwrap();
        let (own, none) =
            (HttpSender::new(receivers).unwrap(), HttpSender::new(AllowedReceivers::default()).unwrap());
        let mut texts = Vec::new();
        for (sender, url) in [
            (&own, format!("http://127.0.0.1:{closed}/secret-path")),
            (&own, format!("http://127.0.0.1:{odd}/secret-path")),
            (&own, format!("https://127.0.0.1:{odd}/secret-path")),
            (&none, "https://localhost/secret-path".to_owned()),
            (&none, "https://unknown.invalid/secret-path".to_owned()),
        ] {
            let error = sender.post_request(&request(&url)).await.err().unwrap();
            assert!(!format!("{error:?}").contains("secret-path"), "{error:?}");
            texts.push(error.to_string());
        }
        assert!(texts.iter().all(|text| *text == texts[0] && !text.contains("localhost")), "{texts:?}");
    }
}
