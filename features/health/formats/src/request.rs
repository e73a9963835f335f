//! One network request of a payload.

use super::MetricName;
use super::path_template::{check_template, make_template};
use super::request_connection::read_connection;
use super::request_error::read_error;
use super::samples::UnreadKeys;
use super::sent_item::{SentItem, check_word, whole_count};
use serde_json::Value;

/// Characters of a host name (RFC 1035).
const HOST_CHARS: usize = 253;
/// The word before the code of an error. Alone it is an error without a code that can be read.
const ERROR_WORD: &str = "error";
/// Requests with this status or a higher one have failed.
const FIRST_FAILED_STATUS: u16 = 400;

#[derive(Clone, Debug, PartialEq)]
pub struct RequestTiming {
    /// The host, in lower case.
    pub host: String,
    /// Method, host and [template](make_template) of the path, or the template that the app sent.
    pub endpoint: Option<String>,
    /// The status, or the code of the error.
    pub result: Option<String>,
    /// The protocol, in lower case.
    pub protocol: Option<String>,
    /// What is known of its connection, such as `network cellular`.
    pub connection: Vec<&'static str>,
    /// True if no answer came, if its status is one of failure, or if the app counts it as failed.
    pub failed: bool,
    /// The values of [`MetricName::REQUEST_VALUES`].
    pub values: [Option<f64>; 9],
}

impl RequestTiming {
    /// Returns the time of the whole request.
    #[must_use]
    pub fn total_time(&self) -> Option<f64> {
        let mut values = MetricName::REQUEST_VALUES.into_iter().zip(self.values);
        values.find(|(metric, _)| *metric == MetricName::RequestTotal)?.1
    }
}

/// Reads a request. A member that is not understood is left out; without a host the request is.
pub(super) fn read_request(sent: &Value, unread: &mut UnreadKeys) -> Option<RequestTiming> {
    let request = SentItem::from_value("requests", sent, unread)?;
    if request.get("host").is_none() {
        request.record_unread("host", unread);
    }
    let host = request.read("host", unread, |host| read_host(host.as_str()?))?;
    let word = |value: &Value| check_word(value.as_str()?).map(str::to_owned);
    let method = request.read("method", unread, word).map(|method| method.to_ascii_uppercase());
    let template =
        request.read("template", unread, |template| Some(check_template(template.as_str()?)?.to_owned()));
    let path = request.read("path", unread, |path| make_template(path.as_str()?));
    let endpoint = template.or(path).map(|template| {
        let method = method.map(|method| format!("{method} ")).unwrap_or_default();
        format!("{method}{host}{template}")
    });
    let status = request.read("status", unread, |status| u16::try_from(whole_count(status)?).ok());
    let error = request.read("error", unread, read_error);
    let has_error = request.get("error").is_some();
    let failed = request.read("failed", unread, Value::as_bool).unwrap_or(false);
    let result = match error {
        Some(error) => Some(format!("{ERROR_WORD} {error}")),
        None if has_error => Some(ERROR_WORD.to_owned()),
        None => status.map(|status| status.to_string()),
    };
    let number = |key: &str, unread: &mut UnreadKeys| request.read_number(key, unread);
    Some(RequestTiming {
        host,
        endpoint,
        result,
        protocol: request.read("protocol", unread, word).map(|protocol| protocol.to_ascii_lowercase()),
        connection: read_connection(&request, unread),
        failed: failed || has_error || status.is_some_and(|status| status >= FIRST_FAILED_STATUS),
        values: [
            number("wait", unread),
            number("dns", unread),
            number("connect", unread),
            number("tls", unread),
            number("first_byte", unread),
            number("total", unread),
            number("sent", unread),
            number("received", unread),
            request.read("redirects", unread, whole_count).map(f64::from),
        ],
    })
}

/// Returns a host name in lower case.
fn read_host(host: &str) -> Option<String> {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
    ((1..=HOST_CHARS).contains(&host.len()) && host.chars().all(fit)).then_some(host)
}
