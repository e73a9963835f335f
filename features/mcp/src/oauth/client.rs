//! Clients: what an assistant says of itself. Nothing proves it but the address to which the code goes.
//!
//! A registration is not stored. The id that it gets holds it: anyone may register, so an id that a client makes itself has no more
//! rights than one from here, and no stranger can fill a table.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use unslide_api::feature::operation::is_text;

/// The beginning of ids that hold a registration.
const REGISTERED_PREFIX: &str = "registered.";
/// The most bytes of such an id: the address of the page with the consent holds it.
const CLIENT_ID_BYTES_LIMIT: usize = 1_000;
/// The most bytes of a name.
const CLIENT_NAME_BYTES_LIMIT: usize = 100;
/// The most addresses of a client.
const REDIRECTS_LIMIT: usize = 20;
/// The most bytes of an address.
const REDIRECT_BYTES_LIMIT: usize = 500;
/// The name of a client that gives none.
const UNNAMED_CLIENT: &str = "an assistant without a name";

/// A client that asks a person for access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpClient {
    pub id: String,
    /// The name that it gives itself, for people.
    pub name: String,
    /// The host of the document that describes it, if one does.
    pub document_host: Option<String>,
    redirects: Vec<Url>,
}

/// A registration, as the id of a client holds it.
#[derive(Deserialize, Serialize)]
struct HeldRegistration {
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(rename = "r")]
    redirects: Vec<String>,
}

impl McpClient {
    /// Registers a client, and makes its id.
    ///
    /// # Errors
    /// Returns what is wrong, beginning with the field.
    pub fn register(name: Option<&str>, redirects: &[String]) -> Result<McpClient, String> {
        let held = HeldRegistration { name: name.map(str::to_owned), redirects: redirects.to_vec() };
        let json = serde_json::to_vec(&held).map_err(|error| error.to_string())?;
        let id = format!("{REGISTERED_PREFIX}{}", URL_SAFE_NO_PAD.encode(json));
        if id.len() > CLIENT_ID_BYTES_LIMIT {
            return Err("redirect_uris: too long together, register fewer or shorter ones".to_owned());
        }
        McpClient::describe(id, name, redirects, None)
    }

    /// Reads the id of a client that was registered. Returns None for the id of any other client.
    pub fn read_registered(id: &str) -> Option<McpClient> {
        let held = id.strip_prefix(REGISTERED_PREFIX).filter(|_| id.len() <= CLIENT_ID_BYTES_LIMIT)?;
        let held: HeldRegistration = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(held).ok()?).ok()?;
        McpClient::describe(id.to_owned(), held.name.as_deref(), &held.redirects, None).ok()
    }

    /// Makes a client of what it says of itself.
    ///
    /// # Errors
    /// Returns what is wrong, beginning with the field.
    pub fn describe(
        id: String,
        name: Option<&str>,
        redirects: &[String],
        document_host: Option<String>,
    ) -> Result<McpClient, String> {
        let name = name.filter(|name| !name.is_empty()).unwrap_or(UNNAMED_CLIENT);
        if !is_text(name, CLIENT_NAME_BYTES_LIMIT) {
            return Err(format!(
                "client_name: at most {CLIENT_NAME_BYTES_LIMIT} bytes, no control characters"
            ));
        }
        if redirects.is_empty() || redirects.len() > REDIRECTS_LIMIT {
            return Err(format!("redirect_uris: 1 to {REDIRECTS_LIMIT} addresses"));
        }
        let redirects: Result<Vec<Url>, String> = redirects.iter().map(|text| read_redirect(text)).collect();
        Ok(McpClient { id, name: name.to_owned(), document_host, redirects: redirects? })
    }

    /// Returns the address to which a code may go, if it is one of the client's. A program on the person's computer may listen on any port
    /// (RFC 8252, section 7.3).
    pub fn find_redirect(&self, asked: &str) -> Option<Url> {
        let asked = read_redirect(asked).ok()?;
        let is_own = |own: &Url| {
            *own == asked || is_loopback(own) && is_loopback(&asked) && strip_port(own) == strip_port(&asked)
        };
        self.redirects.iter().any(is_own).then_some(asked)
    }
}

/// Reads an address to which codes may go: with TLS, or of the person's computer.
fn read_redirect(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("redirect_uris: {text:?} {why}");
    if text.len() > REDIRECT_BYTES_LIMIT {
        return Err(format!("redirect_uris: an address has at most {REDIRECT_BYTES_LIMIT} bytes"));
    }
    let url = Url::parse(text).map_err(|error| wrong(&format!("is not an address: {error}")))?;
    if url.scheme() != "https" && !is_loopback(&url) {
        return Err(wrong(
            "begins with neither https:// nor http://localhost, http://127.0.0.1 or http://[::1]",
        ));
    }
    let has_user = !url.username().is_empty() || url.password().is_some();
    if url.fragment().is_some() || has_user || url.host_str().is_none_or(str::is_empty) {
        return Err(wrong("has a fragment or a user, or has no host"));
    }
    Ok(url)
}

/// Returns true for an address of the person's computer.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme() == "http" && is_own
}

fn strip_port(url: &Url) -> Url {
    let mut url = url.clone();
    // A URL with a host takes any port.
    let _ = url.set_port(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(redirects: &[&str]) -> Result<McpClient, String> {
        let redirects: Vec<String> = redirects.iter().map(|text| (*text).to_owned()).collect();
        McpClient::register(Some("Editor"), &redirects)
    }

    #[test]
    fn the_id_of_a_client_holds_its_registration() {
        let made = register(&["http://127.0.0.1/callback", "https://app.example.com/callback"]).unwrap();
        assert_eq!(McpClient::read_registered(&made.id).as_ref(), Some(&made));
        let hostile = HeldRegistration { name: None, redirects: vec!["javascript:alert(1)".to_owned()] };
        let hostile = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&hostile).unwrap());
        for wrong in ["", "registered.", "registered.e30", &format!("{REGISTERED_PREFIX}{hostile}")] {
            assert_eq!(McpClient::read_registered(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_code_goes_with_tls_or_to_the_persons_computer() {
        for right in [
            "https://app.example.com/callback?a=b",
            "http://localhost:3000/callback",
            "http://127.0.0.1/",
            "http://[::1]:1/",
        ] {
            assert!(register(&[right]).is_ok(), "{right}");
        }
        let long = format!("https://app.example.com/{}", "a".repeat(500));
        for wrong in [
            "",
            "app",
            "http://app.example.com/callback",
            "http://localhost.example.com/",
            "http://127.0.0.1.example.com/",
            "https://app.example.com/#a",
            "https://user@app.example.com/",
            "javascript:alert(1)",
            "data:text/html,a",
            "com.example.app:/callback",
            "file:///etc/passwd",
            &long,
        ] {
            assert!(register(&[wrong]).is_err(), "{wrong}");
        }
        assert!(register(&[]).is_err());
        assert!(register(&["https://app.example.com/a"; 21]).is_err());
        let long = format!("https://app.example.com/{}", "a".repeat(400));
        assert!(register(&[&long, &long]).is_err(), "the id would be too long");
        assert!(McpClient::register(Some("a\nb"), &["https://app.example.com/".to_owned()]).is_err());
    }

    #[test]
    fn only_the_port_of_the_persons_computer_may_differ() {
        let client = register(&["http://127.0.0.1:1/callback", "https://app.example.com/callback"]).unwrap();
        assert!(client.find_redirect("http://127.0.0.1:40000/callback").is_some());
        assert!(client.find_redirect("https://app.example.com/callback").is_some());
        for other in [
            "http://localhost:1/callback",
            "http://127.0.0.1:1/other",
            "http://127.0.0.1:1/callback?a=b",
            "https://app.example.com:444/callback",
            "https://app.example.com/callback/",
            "https://app.example.com/callback?a=b",
            "https://evil.example/callback",
        ] {
            assert_eq!(client.find_redirect(other), None, "{other}");
        }
    }
}
