//! The cells as the door reaches them.

use crate::refusal::PassedBody;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use unslide_store::cells::Cell;

/// How long a connection to a cell may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an unused connection to a cell is kept: less than the api waits for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Unused connections to one cell.
const IDLE_CONNECTIONS: usize = 256;
/// How long bytes on their way to a cell may go without an acknowledgement, and how often a silent connection is tried.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends requests to cells.
pub type CellClient = Client<HttpsConnector<HttpConnector>, PassedBody>;

/// Makes the client.
///
/// # Errors
/// TLS cannot be set up.
pub fn build_client() -> Result<CellClient, rustls::Error> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(SILENCE_TIMEOUT));
    #[cfg(target_os = "linux")]
    http.set_tcp_user_timeout(Some(SILENCE_TIMEOUT));
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build(connector.wrap_connector(http)))
}

/// A cell of the directory.
#[derive(Debug)]
pub struct CellEndpoint {
    pub name: Arc<str>,
    /// The address as the directory has it.
    url: String,
    scheme: Scheme,
    authority: Authority,
    /// The api there understands questions of this door, and answered the last one.
    answers: AtomicBool,
    /// The log has the line that its api does not trust this door.
    distrusts: AtomicBool,
}

impl CellEndpoint {
    /// Reads the address of a cell. Returns None if it is no URL with a host and no path.
    pub fn from_cell(cell: &Cell) -> Option<CellEndpoint> {
        let parts = cell.url.parse::<Uri>().ok()?.into_parts();
        let path = parts.path_and_query.as_ref().map_or("/", PathAndQuery::as_str);
        let scheme = parts.scheme.filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)?;
        Some(CellEndpoint {
            name: cell.name.as_str().into(),
            url: cell.url.clone(),
            scheme,
            authority: parts.authority.filter(|_| path == "/")?,
            answers: AtomicBool::new(false),
            distrusts: AtomicBool::new(false),
        })
    }

    /// Returns true if the directory has this address for the cell.
    pub fn is_at(&self, cell: &Cell) -> bool {
        *self.name == *cell.name && self.url == cell.url
    }

    /// Returns the URL of a path at this cell.
    pub fn address_of(&self, path: &PathAndQuery) -> Uri {
        let built = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path.clone());
        // Each part was read from a URL.
        built.build().unwrap_or_default()
    }

    /// Returns true if the cell answered the last question.
    pub fn is_answering(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    /// Records whether the cell answered a question. Returns true if that changed.
    pub fn set_answering(&self, answers: bool) -> bool {
        self.answers.swap(answers, Ordering::Relaxed) != answers
    }

    /// Logs that the api of the cell does not trust this door, once until it does.
    pub fn warn_of_distrust(&self, distrusts: bool) {
        if distrusts && !self.distrusts.swap(true, Ordering::Relaxed) {
            tracing::error!(
                cell = &*self.name,
                "the api of a cell does not trust this door: name the door's address in api.trusted_proxies there"
            );
        }
        if !distrusts {
            self.distrusts.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Option<CellEndpoint> {
        let (name, topic_prefix, region) = ("eu".to_owned(), String::new(), String::new());
        CellEndpoint::from_cell(&Cell { name, url: url.to_owned(), topic_prefix, region })
    }

    #[test]
    fn a_cell_has_a_url_without_a_path() {
        for good in ["http://10.0.0.1:8080", "https://eu.internal/", "http://[::1]:80"] {
            assert!(endpoint(good).is_some(), "{good}");
        }
        for bad in ["", "eu.internal", "ftp://eu", "http://eu/path", "http://eu/?a", "/eu"] {
            assert!(endpoint(bad).is_none(), "{bad}");
        }
        let path = PathAndQuery::from_static("/v1/../reports?a=%2e%2e");
        let address = endpoint("https://eu.internal:1/").unwrap().address_of(&path);
        assert_eq!(address.to_string(), "https://eu.internal:1/v1/../reports?a=%2e%2e");
    }

    #[test]
    fn a_client_has_tls() {
        build_client().unwrap();
    }
}
