//! Slack's Web API: requests with a bot token, and the meaning of its errors.
//!
//! Sources: <https://docs.slack.dev/reference/methods/chat.postMessage>, `chat.update`, `chat.postEphemeral`, `conversations.history`,
//! `conversations.replies` and `auth.test` beside it, and <https://docs.slack.dev/apis/web-api/rate-limits>.

mod message;
mod signature;

pub use message::{MARKER_EVENT, REPLY_EVENT, build_parent, build_reply, escape_slack};
pub use signature::is_signed;

use crate::settings::CHAT_SECTION;
use http::header;
use reqwest::Method;
use serde_json::Value;
use time::Duration;
use unslide_model::{Secret, format_causes};
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_answer_body, read_retry_after};

/// The most bytes of an answer: a page of 200 messages with blocks.
const ANSWER_BYTES_LIMIT: usize = 4 << 20;
/// The longest pause that an answer can ask for.
const PAUSE_MAX: Duration = Duration::hours(1);
/// The most characters of an error's word.
const ERROR_WORD_LIMIT: usize = 80;

/// The account of a tenant's Slack app.
#[derive(Clone, Debug)]
pub struct SlackAccount {
    pub token: Secret,
}

/// A request: a method of the API, and its arguments.
#[derive(Clone, Debug)]
pub struct SlackCall {
    pub method: &'static str,
    pub body: SlackBody,
}

/// The arguments of a request. Methods that read take no JSON.
#[derive(Clone, Debug)]
pub enum SlackBody {
    Json(Value),
    Form(Vec<(&'static str, String)>),
}

/// The failure of a request. Texts are for the tenant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlackFailure {
    #[error("Slack refuses the token or the channel ({0}). Set the Slack app again.")]
    Broken(String),
    #[error("Slack does not have the message any more ({0}).")]
    MessageGone(String),
    #[error("Slack refuses the message ({0}).")]
    Refused(String),
    #[error("Slack's limit on requests is reached.")]
    Limited(Option<Duration>),
    #[error("Slack is busy or fails ({0}).")]
    Server(String),
    #[error("Slack cannot be reached or does not answer; the operator's log says why.")]
    Unreachable,
    #[error("Slack's answer is not what its documentation says.")]
    Unreadable,
    #[error("{0}")]
    Account(String),
}

impl SlackFailure {
    /// Returns true if Slack has certainly posted nothing.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, SlackFailure::Server(_) | SlackFailure::Unreachable | SlackFailure::Unreadable)
    }

    fn from_word(word: &str, pause: Option<Duration>) -> SlackFailure {
        let word: String = word.chars().filter(|c| !c.is_control()).take(ERROR_WORD_LIMIT).collect();
        match word.as_str() {
            "invalid_auth"
            | "not_authed"
            | "account_inactive"
            | "token_revoked"
            | "token_expired"
            | "missing_scope"
            | "no_permission"
            | "not_allowed_token_type"
            | "team_access_not_granted"
            | "ekm_access_denied"
            | "channel_not_found"
            | "not_in_channel"
            | "is_archived"
            | "restricted_action"
            | "access_denied"
            | "team_not_found" => SlackFailure::Broken(word),
            "message_not_found" | "thread_not_found" | "cant_update_message" => {
                SlackFailure::MessageGone(word)
            }
            "ratelimited" | "rate_limited" | "message_limit_exceeded" => SlackFailure::Limited(pause),
            "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" => {
                SlackFailure::Server(word)
            }
            _ => SlackFailure::Refused(word),
        }
    }
}

/// An answer, with what was sent for it.
#[derive(Clone, Debug)]
pub struct SlackExchange {
    pub url: String,
    pub status: Option<u16>,
    pub outcome: Result<Value, SlackFailure>,
}

/// Sends requests to Slack under the rules for outgoing addresses.
#[derive(Debug)]
pub struct SlackClient {
    client: GuardedClient,
    url: String,
}

impl SlackClient {
    /// Makes the client.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(
        allowed: AllowedReceivers,
        url: &str,
        answer_timeout: std::time::Duration,
    ) -> Result<SlackClient, reqwest::Error> {
        let client = GuardedClient::new(allowed, CHAT_SECTION, answer_timeout)?;
        Ok(SlackClient { client, url: url.trim_end_matches('/').to_owned() })
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Errors
    /// [`SlackFailure`].
    pub async fn send(&self, account: &SlackAccount, call: &SlackCall) -> Result<Value, SlackFailure> {
        self.send_shown(account, call).await.outcome
    }

    /// Sends a request, and returns what was sent and answered, without the token.
    pub async fn send_shown(&self, account: &SlackAccount, call: &SlackCall) -> SlackExchange {
        let url = format!("{}/{}", self.url, call.method);
        let mut status = None;
        let outcome = self.request_answer(account, call, &url, &mut status).await;
        SlackExchange { url, status, outcome }
    }

    async fn request_answer(
        &self,
        account: &SlackAccount,
        call: &SlackCall,
        url: &str,
        status: &mut Option<u16>,
    ) -> Result<Value, SlackFailure> {
        let unreachable = |error: reqwest::Error| {
            let cause = format_causes(&error.without_url());
            tracing::warn!(error = cause, "Slack does not answer");
            SlackFailure::Unreachable
        };
        let request = self.client.start_request(Method::POST, &Secret::new(url));
        let request = request
            .map_err(|wrong| SlackFailure::Account(format!("api.chat.slack_url: {wrong}")))?
            .header(header::AUTHORIZATION, format!("Bearer {}", account.token.reveal()));
        let request = match &call.body {
            SlackBody::Json(body) => {
                request.header(header::CONTENT_TYPE, "application/json; charset=utf-8").body(body.to_string())
            }
            SlackBody::Form(fields) => {
                let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
                request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
            }
        };
        let mut answer = request.send().await.map_err(unreachable)?;
        let code = answer.status().as_u16();
        *status = Some(code);
        let seconds = read_retry_after(answer.headers()).and_then(|seconds| u32::try_from(seconds).ok());
        let pause = seconds.map(|seconds| Duration::seconds(seconds.into()).min(PAUSE_MAX));
        let body = read_answer_body(&mut answer, ANSWER_BYTES_LIMIT).await.map_err(unreachable)?;
        let body = body.ok_or(SlackFailure::Unreadable)?;
        match code {
            429 => return Err(SlackFailure::Limited(pause)),
            500..=599 => return Err(SlackFailure::Server(code.to_string())),
            _ => {}
        }
        let value: Value = unslide_model::json::from_slice(&body).map_err(|_| SlackFailure::Unreadable)?;
        match (value["ok"].as_bool(), value["error"].as_str()) {
            (Some(true), _) => Ok(value),
            (Some(false), Some(word)) => Err(SlackFailure::from_word(word, pause)),
            _ => Err(SlackFailure::Unreadable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_slack_has_its_consequence() {
        let failure = |word| SlackFailure::from_word(word, Some(Duration::seconds(7)));
        assert_eq!(failure("token_revoked"), SlackFailure::Broken("token_revoked".to_owned()));
        assert_eq!(failure("message_not_found"), SlackFailure::MessageGone("message_not_found".to_owned()));
        assert_eq!(failure("ratelimited"), SlackFailure::Limited(Some(Duration::seconds(7))));
        assert!(!failure("fatal_error").is_refusal() && failure("invalid_blocks").is_refusal());
        assert_eq!(failure("odd\u{1b}word"), SlackFailure::Refused("oddword".to_owned()));
    }
}
