//! Documents in which clients describe themselves: the id of such a client is the address of its document (OAuth Client ID Metadata
//! Document).

use super::client::McpClient;
use crate::settings::{MCP_SECTION, McpSettings};
use http::header::ACCEPT;
use http::{Method, StatusCode};
use lru::LruCache;
use parking_lot::Mutex;
use reqwest::Url;
use serde::Deserialize;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use unslide_model::Secret;
use unslide_runtime::egress::{GuardedClient, read_answer_body};

/// How long a server has for a document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of a document.
const DOCUMENT_BYTES_LIMIT: usize = 8 << 10;
/// How long a document counts after it was read.
const DOCUMENT_LIFETIME: Duration = Duration::from_secs(300);
/// Documents in memory.
const DOCUMENTS_LIMIT: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();
/// Documents that are read at once.
const READS_LIMIT: usize = 8;
/// The most bytes of the address of a document.
const ADDRESS_BYTES_LIMIT: usize = 500;

/// The documents of clients.
pub struct ClientDocuments {
    /// None if TLS cannot be set up.
    http: Option<GuardedClient>,
    known: Mutex<LruCache<String, (McpClient, Instant)>>,
    reads: Semaphore,
}

/// The facts of a client in its document.
#[derive(Deserialize)]
struct ClientDocument {
    client_id: String,
    client_name: String,
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
}

impl ClientDocuments {
    /// Settings that cannot be used were refused with the configuration.
    pub fn new(settings: &McpSettings) -> ClientDocuments {
        let receivers = settings.parse_receivers().unwrap_or_default();
        ClientDocuments {
            http: GuardedClient::new(receivers, MCP_SECTION, DOCUMENT_TIMEOUT).ok(),
            known: Mutex::new(LruCache::new(DOCUMENTS_LIMIT)),
            reads: Semaphore::new(READS_LIMIT),
        }
    }

    /// Returns the client that the document at an address describes.
    ///
    /// # Errors
    /// Returns why there is none, for the person.
    pub async fn find_client(&self, id: &str) -> Result<McpClient, String> {
        let known = self.known.lock().get(id).cloned();
        if let Some((client, read_at)) = known
            && read_at.elapsed() < DOCUMENT_LIFETIME
        {
            return Ok(client);
        }
        let client = self.read_client(id).await?;
        self.known.lock().put(id.to_owned(), (client.clone(), Instant::now()));
        Ok(client)
    }

    async fn read_client(&self, id: &str) -> Result<McpClient, String> {
        let url = check_address(id)?;
        let _read = self.reads.try_acquire().map_err(|_| "too many documents are read, try again")?;
        let http = self.http.as_ref().ok_or("TLS cannot be set up")?;
        let request = http.start_request(Method::GET, &Secret::new(id))?;
        let unreachable = |error: reqwest::Error| {
            tracing::info!(error = %error.without_url(), "the document of a client cannot be read");
            "the document cannot be read".to_owned()
        };
        let mut answer = request.header(ACCEPT, "application/json").send().await.map_err(unreachable)?;
        if answer.status() != StatusCode::OK {
            return Err(format!("the document answers with the status {}", answer.status().as_u16()));
        }
        let read = read_answer_body(&mut answer, DOCUMENT_BYTES_LIMIT).await.map_err(unreachable)?;
        let read = read.ok_or(format!("the document has more than {DOCUMENT_BYTES_LIMIT} bytes"))?;
        let document: ClientDocument = serde_json::from_slice(&read)
            .map_err(|_| "the document has no client_id, client_name and redirect_uris".to_owned())?;
        if document.client_id != id {
            return Err("the document is about another client_id".to_owned());
        }
        if document.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none") {
            return Err("the document asks for a token_endpoint_auth_method other than none".to_owned());
        }
        let host = url.host_str().map(str::to_owned);
        McpClient::describe(id.to_owned(), Some(&document.client_name), &document.redirect_uris, host)
    }
}

/// Checks the address of a document: it has a path, and no part by which one document has several addresses.
fn check_address(id: &str) -> Result<Url, String> {
    let url = Url::parse(id).map_err(|error| format!("not an address: {error}"))?;
    let is_plain = url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
    if id.len() > ADDRESS_BYTES_LIMIT || url.as_str() != id || url.path() == "/" || !is_plain {
        return Err("not the address of a document: https://, a host and a path".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_one_address() {
        assert!(check_address("https://app.example.com/client.json").is_ok());
        let long = format!("https://app.example.com/{}", "a".repeat(500));
        for wrong in [
            "https://app.example.com",
            "https://app.example.com/",
            "https://APP.example.com/client.json",
            "https://app.example.com:443/client.json",
            "https://app.example.com/a/../client.json",
            "https://app.example.com/client.json#a",
            "https://user@app.example.com/client.json",
            "client",
            &long,
        ] {
            assert!(check_address(wrong).is_err(), "{wrong}");
        }
    }
}
