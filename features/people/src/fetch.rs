//! Requests to identity providers, through the guard of addresses that tenants name.

use crate::settings::SignInSettings;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::byte_serialize;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, StatusCode};
use reqwest::{RequestBuilder, Url};
use serde_json::Value;
use std::time::Duration;
use unslide_model::Secret;
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, check_url, read_answer_body};

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
    #[error("{path} answers with the status {status}")]
    Status { path: String, status: StatusCode },
    #[error("{0} does not answer with a JSON object")]
    NoJson(String),
}

/// Sends requests to addresses that the operator allows.
pub struct GuardedHttp {
    receivers: AllowedReceivers,
    /// `None` if TLS cannot be set up.
    client: Option<GuardedClient>,
}

/// The answer of a provider.
pub struct ProviderAnswer {
    pub status: StatusCode,
    /// A JSON object, if it is one.
    pub json: Option<Value>,
}

impl GuardedHttp {
    /// Makes the client. Settings that cannot be used were refused with the configuration.
    pub fn new(settings: &SignInSettings) -> GuardedHttp {
        let receivers = settings.parse_receivers().unwrap_or_default();
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

    /// Reads a JSON object from an address.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn get_json(&self, address: &str) -> Result<Value, FetchError> {
        let path = || Url::parse(address).map(|url| url.path().to_owned()).unwrap_or_default();
        let answer = self.send_request(self.start_request(Method::GET, address)?).await?;
        if answer.status != StatusCode::OK {
            return Err(FetchError::Status { path: path(), status: answer.status });
        }
        answer.json.ok_or_else(|| FetchError::NoJson(path()))
    }

    /// Sends a form. The client and its secret are sent as the user and password of HTTP if they are given.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn post_form(
        &self,
        address: &str,
        form: &[(&str, &str)],
        client: Option<(&str, &str)>,
    ) -> Result<ProviderAnswer, FetchError> {
        let mut request = self.start_request(Method::POST, address)?;
        if let Some((id, secret)) = client {
            // The protocol encodes both as in a form first.
            let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(secret)));
            request = request.header(AUTHORIZATION, format!("Basic {pair}"));
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.send_request(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)).await
    }

    fn start_request(&self, method: Method, address: &str) -> Result<RequestBuilder, FetchError> {
        let client =
            self.client.as_ref().ok_or_else(|| FetchError::Address("TLS cannot be set up".to_owned()))?;
        client.start_request(method, &Secret::new(address)).map_err(FetchError::Address)
    }

    /// Sends a request and reads the answer. Redirects are not followed.
    async fn send_request(&self, request: RequestBuilder) -> Result<ProviderAnswer, FetchError> {
        // The URL of a token request is no secret, but the operator's log shall name none of a tenant's.
        let unreachable = |error: reqwest::Error| FetchError::Unreachable(error.without_url());
        let mut answer = request.header(ACCEPT, "application/json").send().await.map_err(unreachable)?;
        let read = read_answer_body(&mut answer, MAX_ANSWER_BYTES).await.map_err(unreachable)?;
        let read = read.ok_or(FetchError::TooLarge)?;
        let json = serde_json::from_slice(&read).ok().filter(Value::is_object);
        Ok(ProviderAnswer { status: answer.status(), json })
    }
}
