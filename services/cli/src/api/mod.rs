//! The public HTTP interface, from the client's side.

mod cause;
mod form;
mod http_client;
mod keyless;
mod profile;
mod requests;
mod retry;
mod server;
mod symbols;
mod upload_body;

pub use form::{FormContent, FormFile};
pub use keyless::{KeylessAnswer, post_without_key};
pub use profile::{ApiProfile, ApiProfileError, DEFAULT_PROFILE, ProfileFile, check_name};
pub use server::{
    AnsweringServer, ApiLogin, ApiServer, DEFAULT_URL, KEY_VARIABLE, LoginSource, PROFILE_VARIABLE,
    URL_VARIABLE, check_address,
};
pub use symbols::{Accepted, Begun, BuiltObject, SkippedFile, Upload};
pub use upload_body::UploadBody;

use crate::Exit;
use bytes::Bytes;
use http_client::client_builder;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use server::RetryPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::time::timeout;
use unslide_model::Secret;

/// How long the API may take for an answer, and for each piece of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may take for the answer of a request that only asks.
const SHORT_ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The least bytes a second of a connection that an upload is waited for.
const SLOWEST_UPLOAD_BYTES: u64 = 16 << 10;
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns how long the answer of an upload of `size` bytes may take.
fn answer_timeout(size: u64) -> Duration {
    ANSWER_TIMEOUT + Duration::from_secs(size / SLOWEST_UPLOAD_BYTES)
}

/// Why a request has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the API at {url} does not answer{}", cause::describe_failure(source))]
    Unreachable { url: String, source: reqwest::Error },
    /// The API accepted the connection, and no answer came.
    #[error("the API at {url} did not answer within {seconds} s")]
    NoAnswer { url: String, seconds: u64 },
    /// The API's own problem details.
    #[error("{title}{} ({status}{}){}", detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default(), request_id.as_ref().map(|id| format!(", request {id}")).unwrap_or_default(), hint.as_ref().map(|hint| format!(". {hint}")).unwrap_or_default())]
    Refused {
        status: u16,
        title: String,
        detail: Option<String>,
        request_id: Option<String>,
        /// True if an argument of the command or the address is wrong.
        is_usage: bool,
        /// The likely cause on this machine, and the way to mend it.
        hint: Option<String>,
    },
    /// An answer that the API does not give.
    #[error("cannot read the answer of {url}: is it the API of Unslide?")]
    Unreadable { url: String, source: serde_json::Error },
    /// The file that was to be sent.
    #[error("cannot read the file")]
    File(#[from] std::io::Error),
    #[error("the API's address (UNSLIDE_URL, --url or a profile) is not a URL: {url}: {why}")]
    Address { url: String, why: String },
    #[error("there is no API key: run `unslide login`, or set UNSLIDE_API_KEY or --api-key")]
    NoKey,
    /// The key of a profile is not sent to other addresses.
    #[error(
        "there is no API key for {url}: the profile {name:?} is of {known}. Name another one with --profile, or set UNSLIDE_API_KEY or --api-key"
    )]
    OtherProfile { name: String, known: String, url: String },
    /// A key that can't be one.
    #[error("the API key (from {origin}) has characters that no key has")]
    Key { origin: LoginSource },
    #[error(transparent)]
    Profile(#[from] ApiProfileError),
    #[error("cannot create the HTTP client")]
    Client(#[source] reqwest::Error),
}

impl ClientError {
    /// Returns the exit code of a command that ends with it.
    pub fn exit_code(&self) -> Exit {
        match self {
            ClientError::Unreachable { .. }
            | ClientError::NoAnswer { .. }
            | ClientError::Refused { status: 502..=504, .. } => Exit::Unreachable,
            ClientError::Refused { status: 401 | 403, .. } => Exit::NotAllowed,
            ClientError::Refused { is_usage: true, .. } => Exit::Usage,
            ClientError::Refused { status: 404, .. } => Exit::Missing,
            ClientError::Address { .. }
            | ClientError::NoKey
            | ClientError::OtherProfile { .. }
            | ClientError::Key { .. }
            | ClientError::Profile(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// Returns true if the same request may succeed a little later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            // A server without TLS will have none later, and a certificate does not change by itself.
            ClientError::Unreachable { source, .. } => !cause::is_tls_failure(source),
            ClientError::NoAnswer { .. } => true,
            ClientError::Refused { status, .. } => *status >= 500 || matches!(*status, 408 | 429),
            _ => false,
        }
    }

    /// Returns true if the request has changed nothing, so that it can be sent again: no connection was made, or the
    /// tenant's rate was used up.
    fn is_undone(&self) -> bool {
        match self {
            ClientError::Unreachable { source, .. } => source.is_connect() && !cause::is_tls_failure(source),
            ClientError::Refused { status, .. } => *status == 429,
            _ => false,
        }
    }

    /// Returns true if no server listens at the address.
    fn is_dead_address(&self) -> bool {
        matches!(self, ClientError::Unreachable { source, .. } if source.is_connect())
    }

    /// Returns the error as the end of a sentence about the API.
    fn in_short(&self) -> &'static str {
        match self {
            ClientError::Unreachable { source, .. } if source.is_connect() => "cannot be reached",
            ClientError::Refused { status: 429, .. } => "asks for fewer requests",
            ClientError::Refused { .. } => "fails",
            _ => "does not answer",
        }
    }
}

/// Returns the id in the path of an operation: the entry of a list.
fn named_entry(path: &str) -> Option<&str> {
    let (_, operation) = path.split_once("/v1/")?;
    operation.split('/').nth(1)
}

/// The part of the OpenAPI document that names the version.
#[derive(Deserialize)]
struct ApiDocument {
    info: ApiInfo,
}

#[derive(Deserialize)]
struct ApiInfo {
    version: String,
}

#[derive(Default, Deserialize)]
struct Refusal {
    /// The address of the kind of problem.
    #[serde(rename = "type", default)]
    kind: String,
    title: String,
    detail: Option<String>,
    request_id: Option<String>,
}

/// A client of one API with one key. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    retry_for: Duration,
    /// True if a request that only reads is sent again although no server listened at the address so far.
    tries_dead_address: bool,
    /// True once the API has answered.
    was_answered: Arc<AtomicBool>,
    /// That the API does not answer has been said, and it has not answered since.
    told: Arc<AtomicBool>,
    is_quiet: bool,
    url: String,
    url_source: LoginSource,
    key: Secret,
    key_source: LoginSource,
    symbols: &'static str,
}

impl Client {
    /// Creates a client, and sends nothing yet.
    ///
    /// # Errors
    /// Returns an error if the HTTP client cannot be created.
    pub fn new(server: &ApiServer) -> Result<Client, ClientError> {
        Client::with_policy(server.find_login()?, server.retry_policy())
    }

    /// Creates a client for an address and a key.
    ///
    /// # Errors
    /// Returns an error if the HTTP client cannot be created.
    pub fn with_login(login: ApiLogin, retry_for: Duration) -> Result<Client, ClientError> {
        Client::with_policy(login, RetryPolicy { retry_for, tries_dead_address: true })
    }

    fn with_policy(login: ApiLogin, policy: RetryPolicy) -> Result<Client, ClientError> {
        let ApiLogin { url, url_source, key, key_source } = login;
        let http = client_builder(&url).build().map_err(ClientError::Client)?;
        Ok(Client {
            http,
            retry_for: policy.retry_for,
            tries_dead_address: policy.tries_dead_address,
            was_answered: Arc::default(),
            told: Arc::default(),
            is_quiet: false,
            url,
            url_source,
            key,
            key_source,
            symbols: "/v1/symbols",
        })
    }

    /// Returns a client that prints no notes while it waits.
    #[must_use]
    pub fn without_notes(self) -> Client {
        Client { is_quiet: true, ..self }
    }

    /// Returns the address, with a remark if it is the default.
    fn shown_url(&self) -> String {
        match self.url_source {
            LoginSource::Default => {
                format!("{} (the default: UNSLIDE_URL, --url or `unslide login` sets another)", self.url)
            }
            _ => self.url.clone(),
        }
    }

    fn no_answer(&self, after: Duration) -> ClientError {
        ClientError::NoAnswer { url: self.shown_url(), seconds: after.as_secs() }
    }

    fn to_unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.shown_url(), source }
    }

    /// Returns a client for system symbols rather than the tenant's own. It needs an operator's key.
    pub fn for_system_symbols(self) -> Client {
        Client { symbols: "/v1/system/symbols", ..self }
    }

    /// Returns the path of the symbols that this client is for: the tenant's own, or the system's.
    pub fn symbols_path(&self) -> &'static str {
        self.symbols
    }

    /// Returns true if the key goes over the network as plain text.
    pub fn is_insecure(&self) -> bool {
        server::is_insecure(&self.url)
    }

    /// Asks which server answers.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get_server(&self) -> Result<AnsweringServer, ClientError> {
        let get =
            || self.prompt_answer(self.build_request(Method::GET, "/openapi.json"), self.short_timeout());
        let answer = self.retry_reading(get).await?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        // A date of HTTP has the form of one in a mail.
        let date = date.and_then(|date| OffsetDateTime::parse(date, &Rfc2822).ok());
        let document: ApiDocument = self.read_json(answer).await?;
        Ok(AnsweringServer { version: document.info.version, date })
    }

    fn build_request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(self.key.reveal())
    }

    /// Sends a request like [`Client::send_request`], if it needs no work at the server. Prints a note if the
    /// answer is late.
    async fn prompt_answer(
        &self,
        request: RequestBuilder,
        within: Duration,
    ) -> Result<Response, ClientError> {
        self.wait_for_answer(self.send_request(request, within), within).await
    }

    /// Sends a request, and waits for the head of its answer.
    async fn send_request(&self, request: RequestBuilder, within: Duration) -> Result<Response, ClientError> {
        let answer = timeout(within, request.send()).await.map_err(|_| self.no_answer(within))?;
        let answer = answer.map_err(|error| self.to_unreachable(error))?;
        self.told.store(false, Relaxed);
        self.was_answered.store(true, Relaxed);
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let nothing = || Refusal { title: "the API refuses".to_owned(), ..Refusal::default() };
        let named = named_entry(answer.url().path()).map(|id| format!(": {id}")).unwrap_or_default();
        let body = self.read_bytes(answer).await.unwrap_or_default();
        let Refusal { title, detail, request_id, kind } =
            serde_json::from_slice(&body).unwrap_or_else(|_| nothing());
        let hint = cause::describe_refusal(status.as_u16(), &self.url, &self.key_source);
        let is_value = ["/invalid-parameter", "/invalid-body"].iter().any(|end| kind.ends_with(end));
        // A wrong address is no missing thing.
        let is_usage = is_value || matches!(status.as_u16(), 404 | 405) && hint.is_some();
        let (title, detail) = match detail {
            // The title says no more.
            Some(detail) if kind.ends_with("/not-found") => (detail + &named, None),
            detail => (title, detail),
        };
        Err(ClientError::Refused { status: status.as_u16(), title, detail, request_id, is_usage, hint })
    }

    async fn read_piece(&self, answer: &mut Response) -> Result<Option<Bytes>, ClientError> {
        let piece =
            timeout(ANSWER_TIMEOUT, answer.chunk()).await.map_err(|_| self.no_answer(ANSWER_TIMEOUT))?;
        // An answer that is cut off is none.
        piece.map_err(|error| self.to_unreachable(error))
    }

    async fn read_bytes(&self, mut answer: Response) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.read_piece(&mut answer).await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    async fn read_json<T: DeserializeOwned>(&self, answer: Response) -> Result<T, ClientError> {
        self.parse_json(&self.read_bytes(answer).await?)
    }

    fn parse_json<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        let unreadable = |source| ClientError::Unreadable { url: self.url.clone(), source };
        // An answer without content.
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { bytes };
        serde_json::from_slice(bytes).map_err(unreadable)
    }

    /// Returns how long the API may take to answer a request that only reads: no longer than it is tried.
    fn short_timeout(&self) -> Duration {
        if self.retry_for.is_zero() { SHORT_ANSWER_TIMEOUT } else { SHORT_ANSWER_TIMEOUT.min(self.retry_for) }
    }

    async fn get_once<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read_json(self.prompt_answer(self.build_request(Method::GET, path), self.short_timeout()).await?)
            .await
    }

    /// GETs JSON, with tries.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.retry_reading(|| self.get_once(path)).await
    }

    /// POSTs JSON and reads JSON. Sends it again only if no connection was made.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        self.send_json(Method::POST, path, body).await
    }

    /// Does the same as [`Client::post`], with another method.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        self.retry_if(ClientError::is_undone, || self.send_once(method.clone(), path, body)).await
    }

    async fn send_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        let answer = self.prompt_answer(self.build_request(method, path).json(body), ANSWER_TIMEOUT).await?;
        self.read_json(answer).await
    }

    /// GETs bytes of a media type. Returns `None` if the answer has none by design.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get_bytes(&self, path: &str, accept: &str) -> Result<Option<Vec<u8>>, ClientError> {
        let get = || {
            let request = self.build_request(Method::GET, path).header("accept", accept);
            self.prompt_answer(request, self.short_timeout())
        };
        let answer = self.retry_reading(get).await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        self.read_bytes(answer).await.map(Some)
    }

    /// GETs bytes and passes them to `take` as they arrive, until it returns false.
    ///
    /// # Errors
    /// Returns a [`ClientError`], also if the answer breaks off.
    pub async fn get_pieces(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ClientError> {
        let get = || self.prompt_answer(self.build_request(Method::GET, path), self.short_timeout());
        let mut answer = self.retry_reading(get).await?;
        while let Some(piece) = self.read_piece(&mut answer).await? {
            if !take(&piece) {
                break;
            }
        }
        Ok(())
    }
}
