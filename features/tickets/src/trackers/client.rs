//! Sends requests to trackers, which are strangers: it reaches allowed addresses only, and reads a bounded part of an answer.

use super::{TrackerAccount, TrackerCall, TrackerProtocol};
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;
use time::{Duration, OffsetDateTime};
use unslide_model::{Secret, format_causes};
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_answer_body};

/// The section of the settings with the operator's networks.
pub const TICKETS_SECTION: &str = "api.tickets";
/// The most bytes of an answer: a page of ten tickets with long texts. As values of JSON they take some times as much.
pub const ANSWER_BYTES_LIMIT: usize = 512 << 10;
/// Characters of a tracker's words that an error repeats.
const WORDS_LIMIT: usize = 300;
/// The longest pause that an answer can ask for.
const PAUSE_MAX: Duration = Duration::hours(1);

/// The failure of a request. Texts are for the tenant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackerFailure {
    #[error("The tracker refuses the token (401){0}. Set a new token.")]
    Unauthorized(String),
    #[error("The token may not do this (403){0}.")]
    Forbidden(String),
    #[error("The tracker does not know it, or the token may not see it ({status}){words}.")]
    Missing { status: u16, words: String },
    #[error("The tracker refuses the request ({status}){words}.")]
    Refused { status: u16, words: String },
    #[error("The tracker's limit on requests is reached ({status}).")]
    Limited { status: u16, pause: Option<Duration> },
    #[error("The tracker is busy or fails ({0}).")]
    Server(u16),
    #[error("The tracker cannot be reached or does not answer; the operator's log says why.")]
    Unreachable,
    #[error("The tracker's answer is not what its documentation says.")]
    Unreadable,
    #[error("url: {0}")]
    Address(String),
}

/// An answer with a status of success, and what was sent for it.
#[derive(Clone, Debug)]
pub struct SentCall {
    pub method: String,
    pub url: String,
    pub status: Option<u16>,
    pub outcome: Result<Value, TrackerFailure>,
}

/// Sends requests to trackers.
#[derive(Debug)]
pub struct TrackerClient(GuardedClient);

impl TrackerClient {
    /// Makes the client.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(
        allowed: AllowedReceivers,
        answer_timeout: std::time::Duration,
    ) -> Result<TrackerClient, reqwest::Error> {
        Ok(TrackerClient(GuardedClient::new(allowed, TICKETS_SECTION, answer_timeout)?))
    }

    /// Sends a request, and returns the answer as JSON.
    ///
    /// # Errors
    /// [`TrackerFailure`].
    pub async fn send(
        &self,
        protocol: &dyn TrackerProtocol,
        account: &TrackerAccount,
        call: &TrackerCall,
    ) -> Result<Value, TrackerFailure> {
        self.send_shown(protocol, account, call).await.outcome
    }

    /// Sends a request, and returns what was sent and answered, without the token.
    pub async fn send_shown(
        &self,
        protocol: &dyn TrackerProtocol,
        account: &TrackerAccount,
        call: &TrackerCall,
    ) -> SentCall {
        let url = format!("{}{}", account.url, call.path);
        let mut sent = SentCall {
            method: call.method.to_string(),
            url: url.clone(),
            status: None,
            outcome: Err(TrackerFailure::Unreachable),
        };
        sent.outcome = self.exchange(protocol, account, call, &url, &mut sent.status).await;
        sent
    }

    async fn exchange(
        &self,
        protocol: &dyn TrackerProtocol,
        account: &TrackerAccount,
        call: &TrackerCall,
        url: &str,
        status: &mut Option<u16>,
    ) -> Result<Value, TrackerFailure> {
        let unreachable = |error: reqwest::Error| {
            let cause = format_causes(&error.without_url());
            tracing::warn!(error = cause, "a tracker does not answer");
            TrackerFailure::Unreachable
        };
        let request = self.0.start_request(call.method.clone(), &Secret::new(url));
        let (name, value) = protocol.authorize(account);
        let mut request = request
            .map_err(TrackerFailure::Address)?
            .header(name, value.reveal())
            .header(header::ACCEPT, "application/json");
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let mut answer = request.send().await.map_err(unreachable)?;
        let (code, headers) = (answer.status(), answer.headers().clone());
        *status = Some(code.as_u16());
        let body = read_answer_body(&mut answer, ANSWER_BYTES_LIMIT).await.map_err(unreachable)?;
        let body = body.ok_or(TrackerFailure::Unreadable)?;
        read_answer(protocol, code, &headers, &body)
    }
}

/// Reads an answer by its status.
fn read_answer(
    protocol: &dyn TrackerProtocol,
    code: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Value, TrackerFailure> {
    let value: Option<Value> =
        if body.is_empty() { Some(Value::Null) } else { serde_json::from_slice(body).ok() };
    if let Some(failure) = value.as_ref().and_then(|value| protocol.find_failure(value)) {
        return Err(failure);
    }
    let words = value.as_ref().map(describe_error).unwrap_or_default();
    let status = code.as_u16();
    Err(match status {
        200..=299 => return value.ok_or(TrackerFailure::Unreadable),
        401 => TrackerFailure::Unauthorized(words),
        403 if is_limit(headers) => TrackerFailure::Limited { status, pause: read_pause(headers) },
        403 => TrackerFailure::Forbidden(words),
        404 | 410 => TrackerFailure::Missing { status, words },
        429 => TrackerFailure::Limited { status, pause: read_pause(headers) },
        // 409: another request changes the same ticket at this moment. 408, 425: the request may have been carried out.
        408 | 409 | 425 | 500..=599 => TrackerFailure::Server(status),
        _ => TrackerFailure::Refused { status, words },
    })
}

/// Returns true if a refusal is one for the rate.
fn is_limit(headers: &HeaderMap) -> bool {
    headers.contains_key(header::RETRY_AFTER)
        || headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0")
}

/// Reads `Retry-After` in seconds, or the time at which the limit ends.
fn read_pause(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    let pause = number("retry-after").map(Duration::seconds).or_else(|| {
        let end = OffsetDateTime::from_unix_timestamp(number("x-ratelimit-reset")?).ok()?;
        let begin = headers.get(header::DATE)?.to_str().ok()?;
        let begin = OffsetDateTime::parse(begin, &time::format_description::well_known::Rfc2822).ok()?;
        Some(end - begin)
    })?;
    Some(pause.clamp(Duration::seconds(1), PAUSE_MAX))
}

/// Returns the members of an answer that say what is wrong, as ` "…"`. Other parts of an answer are not shown: a server in the
/// operator's network may have secrets in them.
pub fn describe_error(answer: &Value) -> String {
    let mut words = Vec::new();
    for member in ["message", "error", "error_description", "errorMessages", "errors"] {
        collect_words(&answer[member], &mut words);
    }
    let text: String = words.join("; ").chars().filter(|c| !c.is_control()).take(WORDS_LIMIT).collect();
    if text.is_empty() { text } else { format!(": \"{text}\"") }
}

fn collect_words(value: &Value, words: &mut Vec<String>) {
    match value {
        Value::String(text) => words.push(text.clone()),
        Value::Array(items) => items.iter().take(5).for_each(|item| collect_words(item, words)),
        Value::Object(members) => {
            for (name, item) in members.iter().take(10) {
                match item {
                    Value::String(text) => words.push(format!("{name}: {text}")),
                    other => collect_words(other, words),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::TrackerKind;
    use serde_json::json;

    fn read(status: u16, headers: &[(&'static str, &str)], body: &Value) -> TrackerFailure {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let code = StatusCode::from_u16(status).unwrap();
        read_answer(TrackerKind::Github.protocol(), code, &headers, body.to_string().as_bytes()).unwrap_err()
    }

    #[test]
    fn each_status_is_the_failure_that_the_documentation_says() {
        let none = json!({});
        assert_eq!(read(401, &[], &none), TrackerFailure::Unauthorized(String::new()));
        let limited = |status, seconds: Option<i64>| TrackerFailure::Limited {
            status,
            pause: seconds.map(Duration::seconds),
        };
        assert_eq!(read(429, &[("retry-after", "7")], &none), limited(429, Some(7)));
        assert_eq!(read(429, &[], &none), limited(429, None));
        assert_eq!(read(403, &[("retry-after", "90000")], &none), limited(403, Some(3_600)));
        let reset = [
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1795000060"),
            ("date", "Wed, 18 Nov 2026 11:06:40 GMT"),
        ];
        assert!(matches!(read(403, &reset, &none), TrackerFailure::Limited { status: 403, pause: Some(_) }));
        assert_eq!(read(403, &[], &none), TrackerFailure::Forbidden(String::new()));
        for status in [408, 409, 425, 500, 503] {
            assert_eq!(read(status, &[], &none), TrackerFailure::Server(status));
        }
        let words = read(
            400,
            &[],
            &json!({"errorMessages": [], "errors": {"customfield_10010": "Team is required."}}),
        );
        assert!(words.to_string().contains("customfield_10010: Team is required."), "{words}");
        let words = read(404, &[], &json!({"message": "Not\u{7} Found", "secret": "hidden"})).to_string();
        assert!(words.contains("\"Not Found\"") && !words.contains("hidden"), "{words}");
    }
}
