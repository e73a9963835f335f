//! Requests to Apple's API.

use super::answers::{SubmissionPage, describe_error, read_apps, read_log, read_submissions};
use super::rate::{RateLimit, read_retry_after};
use super::token::{AppleKey, AppleKeyError};
use form_urlencoded::byte_serialize;
use http::{HeaderMap, Method, StatusCode, header};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{Clock, Secret, format_causes};
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_answer_body};

/// The section of the settings, for messages.
const SECTION: &str = "api.testflight";
/// How long Apple has for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a list, and of an answer with a crash log.
const MAX_LIST_BYTES: usize = 4 << 20;
const MAX_LOG_BYTES: usize = 8 << 20;
/// Submissions of a page: the most that Apple gives.
const PAGE_LIMIT: usize = 200;
/// The attributes that are asked for: neither the tester's e-mail address nor their name.
const FIELDS: &str = "fields%5BbetaFeedbackCrashSubmissions%5D=createdDate,comment";

/// The failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum AppleError {
    #[error(
        "Apple refuses the key (401): {0}. It is revoked or expired, or the issuer id and the key id are not those of the private key, or this service's clock is wrong"
    )]
    Unauthorized(String),
    #[error(
        "the key may not do this (403): {0}. It needs the role Developer, App Manager or Admin, access to the app, and agreements that are signed"
    )]
    Forbidden(String),
    #[error("Apple does not know it ({status}): {reason}")]
    NotFound { status: StatusCode, reason: String },
    /// A request that Apple does not take. A cursor that has expired is one.
    #[error("Apple does not take the request ({status}): {reason}")]
    Request { status: StatusCode, reason: String },
    #[error("Apple's limit on requests is reached (429)")]
    Limited { pause: Option<Duration> },
    #[error("Apple's API answers with the status {0}")]
    Server(StatusCode),
    #[error("Apple's API cannot be reached or does not answer")]
    Unreachable,
    #[error("Apple's answer has more than {0} bytes")]
    TooLarge(usize),
    #[error("Apple's answer is not what its documentation says")]
    Unreadable,
    #[error("the next page is not at Apple's address")]
    ForeignPage,
    #[error(transparent)]
    Key(#[from] AppleKeyError),
}

/// Where a list of submissions is read from.
#[derive(Clone, Copy, Debug)]
pub enum ListStart<'u> {
    /// The newest of an app, with Apple's id of it.
    Newest(&'u str),
    /// The page at a URL that Apple has given.
    Next(&'u str),
}

/// Sends requests to Apple's API, and to no other address.
#[derive(Clone)]
pub struct AppleClient {
    client: Arc<GuardedClient>,
    url: String,
}

/// Requests with one key, one after the other.
pub struct AppleSession<'k> {
    client: AppleClient,
    clock: Arc<dyn Clock>,
    key: &'k AppleKey,
    token: Option<Secret>,
    /// The limit that the last answer named.
    rate: Option<RateLimit>,
}

/// An answer, read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl fmt::Debug for AppleClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppleClient").field("url", &self.url).finish_non_exhaustive()
    }
}

impl AppleClient {
    /// Makes a client that reaches Apple's API and nothing else. A test names the network and port of its own server.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(url: &str, network: Option<(String, u16)>) -> Result<AppleClient, reqwest::Error> {
        let (networks, ports): (Vec<String>, Vec<u16>) = network.into_iter().unzip();
        let allowed = AllowedReceivers::from_networks(&networks, &ports).unwrap_or_default();
        let client = GuardedClient::new(allowed, SECTION, ANSWER_TIMEOUT)?;
        Ok(AppleClient { client: Arc::new(client), url: url.trim_end_matches('/').to_owned() })
    }

    /// Begins requests with a key.
    #[must_use]
    pub fn with_key<'k>(&self, key: &'k AppleKey, clock: &Arc<dyn Clock>) -> AppleSession<'k> {
        AppleSession { client: self.clone(), clock: clock.clone(), key, token: None, rate: None }
    }

    async fn get(&self, url: &str, token: &Secret, max_bytes: usize) -> Result<Answer, AppleError> {
        let unreachable = |error: reqwest::Error| {
            tracing::warn!(error = format_causes(&error.without_url()), "Apple's API does not answer");
            AppleError::Unreachable
        };
        let request = self.client.start_request(Method::GET, &Secret::new(url)).map_err(|error| {
            tracing::warn!(error = %error, "Apple's API cannot be asked");
            AppleError::Unreachable
        })?;
        let request = request.bearer_auth(token.reveal()).header(header::ACCEPT, "application/json");
        let mut answer = request.send().await.map_err(unreachable)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = read_answer_body(&mut answer, max_bytes).await.map_err(unreachable)?;
        let body = body.ok_or(AppleError::TooLarge(max_bytes))?;
        Ok(Answer { status, headers, body })
    }
}

impl AppleSession<'_> {
    /// Returns Apple's ids of apps by their bundle identifiers. Those that the key does not see are left out.
    ///
    /// # Errors
    /// [`AppleError`].
    pub async fn find_apps(&mut self, apps: &[String]) -> Result<Vec<(String, String)>, AppleError> {
        let list = byte_serialize(apps.join(",").as_bytes()).collect::<String>();
        let path =
            format!("/v1/apps?filter%5BbundleId%5D={list}&fields%5Bapps%5D=bundleId&limit={PAGE_LIMIT}");
        let body = self.get_path(&path, MAX_LIST_BYTES).await?;
        let mut found = read_apps(&body).map_err(|_| AppleError::Unreadable)?;
        // The filter may find more than what it names.
        found.retain(|(app, _)| apps.contains(app));
        Ok(found)
    }

    /// Checks that the key may read the submissions of an app.
    ///
    /// # Errors
    /// [`AppleError`].
    pub async fn check_app(&mut self, apple_id: &str) -> Result<(), AppleError> {
        let path = format!("/v1/apps/{apple_id}/betaFeedbackCrashSubmissions?limit=1&{FIELDS}");
        self.get_path(&path, MAX_LIST_BYTES).await.map(drop)
    }

    /// Returns true if the requests that Apple grants for this hour are used up to a tenth.
    pub fn is_used_up(&self) -> bool {
        self.rate.is_some_and(RateLimit::is_used_up)
    }

    /// Reads a page of submissions, the newest first.
    ///
    /// # Errors
    /// [`AppleError`].
    pub async fn list_submissions(&mut self, start: ListStart<'_>) -> Result<SubmissionPage, AppleError> {
        let path = match start {
            ListStart::Newest(apple_id) => format!(
                "/v1/apps/{apple_id}/betaFeedbackCrashSubmissions?sort=-createdDate&limit={PAGE_LIMIT}&{FIELDS}"
            ),
            // Another address would get the token.
            ListStart::Next(url) => match url.strip_prefix(&self.client.url) {
                Some(path) if path.starts_with("/v1/") => path.to_owned(),
                _ => return Err(AppleError::ForeignPage),
            },
        };
        let body = self.get_path(&path, MAX_LIST_BYTES).await?;
        read_submissions(&body).map_err(|_| AppleError::Unreadable)
    }

    /// Reads the crash log of a submission. Returns None if there is none yet.
    ///
    /// # Errors
    /// [`AppleError`].
    pub async fn read_log(&mut self, submission: &str) -> Result<Option<String>, AppleError> {
        let path = format!(
            "/v1/betaFeedbackCrashSubmissions/{submission}/crashLog?fields%5BbetaCrashLogs%5D=logText"
        );
        match self.get_path(&path, MAX_LOG_BYTES).await {
            Ok(body) => read_log(&body).map_err(|_| AppleError::Unreadable),
            Err(AppleError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request, with a new token if Apple refuses that of before.
    async fn get_path(&mut self, path: &str, max_bytes: usize) -> Result<Vec<u8>, AppleError> {
        let url = format!("{}{path}", self.client.url);
        let is_fresh = self.token.is_none();
        let mut answer = self.send(&url, max_bytes).await?;
        if answer.status == StatusCode::UNAUTHORIZED && !is_fresh {
            self.token = None;
            answer = self.send(&url, max_bytes).await?;
        }
        self.rate = RateLimit::from_headers(&answer.headers);
        check_answer(answer)
    }

    async fn send(&mut self, url: &str, max_bytes: usize) -> Result<Answer, AppleError> {
        let token = match self.token.take() {
            Some(token) => token,
            None => self.key.sign_token(self.clock.now())?,
        };
        let answer = self.client.get(url, &token, max_bytes).await;
        self.token = Some(token);
        answer
    }
}

fn check_answer(answer: Answer) -> Result<Vec<u8>, AppleError> {
    let reason = || describe_error(&answer.body);
    Err(match answer.status {
        StatusCode::OK => return Ok(answer.body),
        StatusCode::UNAUTHORIZED => AppleError::Unauthorized(reason()),
        StatusCode::FORBIDDEN => AppleError::Forbidden(reason()),
        status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => {
            AppleError::NotFound { status, reason: reason() }
        }
        StatusCode::TOO_MANY_REQUESTS => AppleError::Limited { pause: read_retry_after(&answer.headers) },
        status if status.is_client_error() => AppleError::Request { status, reason: reason() },
        status => AppleError::Server(status),
    })
}
