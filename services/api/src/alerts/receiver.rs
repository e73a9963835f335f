//! The HTTP client for receivers, which are strangers: every address is checked after it is looked up and before the
//! connection, redirects are not followed, and little of an answer is read.

use super::channels::AlertRequest;
use super::networks::AllowedNetworks;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use unslide_model::Secret;

/// How long a receiver has, from the name's look-up to the answer's end. Shorter than the lease of a message.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const LONGEST_ANSWER: usize = 16 << 10;

/// Posts messages.
pub struct HttpSender {
    client: Client,
    networks: AllowedNetworks,
}

/// Checks that messages could be posted to an address, as far as that can be said without its name being looked up.
///
/// # Errors
/// What is wrong with it.
pub fn check_url(address: &Secret, networks: &AllowedNetworks) -> Result<Url, String> {
    let url = Url::parse(address.reveal()).map_err(|error| format!("address: not a URL: {error}"))?;
    // Within the operator's own networks there may be no certificates.
    if url.scheme() != "https" && (url.scheme() != "http" || networks.is_empty()) {
        return Err("address: a URL that begins with https://".to_owned());
    }
    let host = url.host_str().ok_or("address: the URL has no host")?;
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if literal.is_ok_and(|literal| !networks.allow(literal)) {
        return Err(not_allowed(host));
    }
    Ok(url)
}

fn not_allowed(host: &str) -> String {
    format!("{host} is not an address of the internet. The operator can allow it with api.alerts.networks.")
}

impl HttpSender {
    /// Makes the client.
    ///
    /// # Errors
    /// Where TLS cannot be set up.
    pub fn new(networks: AllowedNetworks) -> Result<HttpSender, reqwest::Error> {
        // There may be one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .dns_resolver(CheckedResolver(networks.clone()))
            .redirect(Policy::none())
            .no_proxy()
            .timeout(TIMEOUT)
            .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(HttpSender { client, networks })
    }

    /// Sends a request. Returns the status and the beginning of the answer.
    ///
    /// # Errors
    /// Why there is no answer, without the address, which is a secret.
    pub async fn post(&self, request: &AlertRequest) -> Result<(u16, Vec<u8>), String> {
        let url = check_url(&request.url, &self.networks)?;
        let mut sent = self.client.post(url).header("content-type", request.content_type.as_str());
        for (name, value) in &request.headers {
            sent = sent.header(*name, value);
        }
        let mut answer = sent.body(request.body.clone()).send().await.map_err(|error| explained(&error))?;
        let mut body = Vec::new();
        while body.len() < LONGEST_ANSWER
            && let Some(chunk) = answer.chunk().await.map_err(|error| explained(&error))?
        {
            let left = LONGEST_ANSWER - body.len();
            body.extend_from_slice(chunk.get(..left).unwrap_or(&chunk));
        }
        Ok((answer.status().as_u16(), body))
    }
}

/// An error with its causes. Their texts name no path.
fn explained(error: &reqwest::Error) -> String {
    let mut text = String::from(if error.is_timeout() {
        "The receiver did not answer in time"
    } else if error.is_connect() {
        "The receiver cannot be reached"
    } else {
        "The request failed"
    });
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        text.push_str(": ");
        text.push_str(&one.to_string());
        cause = one.source();
    }
    text
}

/// Looks names up, and gives only addresses that may be connected to.
struct CheckedResolver(AllowedNetworks);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let networks = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| networks.allow(address.ip())).collect();
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
    use unslide_store::alerts::rules::TemplateType;

    #[test]
    fn addresses_that_cannot_be_posted_to_are_named() {
        let none = AllowedNetworks::default();
        let own = AllowedNetworks::read(&["127.0.0.0/8".to_owned()]).unwrap();
        for (fine, address, networks) in [
            (true, "https://example.com/hook", &none),
            (false, "http://example.com/hook", &none),
            (true, "http://127.0.0.1:8080/hook", &own),
            (false, "https://127.0.0.1:8080/hook", &none),
            (false, "https://[::1]/hook", &own),
            (false, "https://2130706433/hook", &none),
            (false, "file:///etc/passwd", &own),
            (false, "hook", &none),
        ] {
            assert_eq!(check_url(&Secret::new(address), networks).is_ok(), fine, "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_not_reached() {
        let sender = HttpSender::new(AllowedNetworks::default()).unwrap();
        let url = Secret::new("https://localhost:1/secret-path");
        let request =
            AlertRequest { url, headers: Vec::new(), content_type: TemplateType::Json, body: String::new() };
        let error = sender.post(&request).await.unwrap_err();
        assert!(error.contains("localhost is not an address of the internet"), "{error}");
        assert!(!error.contains("secret-path"), "{error}");
    }
}
