//! Requests to identity providers, through the guard of addresses that tenants name.

use crate::settings::SignInSettings;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::Url;
use std::pin::Pin;
use std::time::Duration;
use unslide_model::Secret;
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, check_url};

/// The section of the settings, for messages.
const SECTION: &str = "api.sign_in";
/// How long a provider has for one answer.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer of a provider.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// The failure of a request to a provider.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address may not be reached. The text is for the tenant.
    #[error("{0}")]
    Address(String),
    /// The cause is for the operator's log: it would tell a tenant about names and ports in the operator's networks.
    #[error("the identity provider cannot be reached or does not answer; the operator's log says why")]
    Unreachable(#[source] reqwest::Error),
    #[error("the answer has more than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
    #[error("the answer has headers that are not valid")]
    Headers(#[source] http::Error),
}

/// Sends requests to addresses that the operator allows.
pub struct GuardedHttp {
    receivers: AllowedReceivers,
    /// `None` if TLS cannot be set up.
    client: Option<GuardedClient>,
}

impl GuardedHttp {
    /// Makes the client. Settings that cannot be used were refused with the configuration.
    pub fn new(settings: &SignInSettings) -> GuardedHttp {
        let receivers =
            AllowedReceivers::from_networks(&settings.networks, &settings.ports).unwrap_or_default();
        GuardedHttp {
            client: GuardedClient::new(receivers.clone(), SECTION, PROVIDER_TIMEOUT).ok(),
            receivers,
        }
    }

    /// Checks that an address may be reached, as far as that is known before its name is looked up.
    ///
    /// # Errors
    /// Returns what is wrong with it, for the tenant.
    pub fn check_address(&self, address: &str) -> Result<Url, String> {
        check_url(&Secret::new(address), &self.receivers, SECTION)
    }

    /// Sends a request and reads the answer. Redirects are not followed.
    ///
    /// # Errors
    /// [`FetchError`].
    async fn send_request(&self, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let (parts, body) = request.into_parts();
        let client =
            self.client.as_ref().ok_or_else(|| FetchError::Address("TLS cannot be set up".to_owned()))?;
        let address = Secret::new(parts.uri.to_string());
        let begun = client.start_request(parts.method, &address);
        let begun = begun.map_err(FetchError::Address)?;
        let sent = begun.headers(parts.headers).body(body).send();
        // The URL of a token request is no secret, but the operator's log shall name none of a tenant's.
        let unreachable = |error: reqwest::Error| FetchError::Unreachable(error.without_url());
        let mut answer = sent.await.map_err(unreachable)?;
        let mut response = http::Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let mut read = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if read.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(FetchError::TooLarge);
            }
            read.extend_from_slice(&chunk);
        }
        response.body(read).map_err(FetchError::Headers)
    }
}

/// Answer of a provider to come.
type PendingAnswer<'c> = Pin<Box<dyn Future<Output = Result<HttpResponse, FetchError>> + Send + 'c>>;

impl<'c> AsyncHttpClient<'c> for GuardedHttp {
    type Error = FetchError;
    type Future = PendingAnswer<'c>;

    fn call(&'c self, request: HttpRequest) -> PendingAnswer<'c> {
        Box::pin(self.send_request(request))
    }
}
