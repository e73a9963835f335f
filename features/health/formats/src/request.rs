//! One network request of a payload.

use super::MetricName;
use super::name::is_countable;
use serde::Deserialize;
use unslide_proto::event::{EventError, field_error};

/// Characters of a host name (RFC 1035).
const HOST_CHARS: usize = 253;
/// The most bytes of a path that is read.
const PATH_BYTES: usize = 2_048;
/// The most segments of a template; those behind are one.
const MOST_SEGMENTS: usize = 8;
/// The most letters of a segment that stays in a template.
const SEGMENT_LETTERS: usize = 24;
/// The most characters of a method, a protocol and an error code.
const WORD_CHARS: usize = 60;
/// The segment of a template in place of any other.
const ANY_SEGMENT: &str = "#";
/// Requests with this status or a higher one have failed.
const FIRST_FAILED_STATUS: u16 = 400;

#[derive(Clone, Debug, PartialEq)]
pub struct RequestTiming {
    /// The host, in lower case.
    pub host: String,
    /// Method, host and [template](make_template) of the path, if the path is known.
    pub endpoint: Option<String>,
    /// The status, or the code of the error.
    pub result: Option<String>,
    /// The protocol, in lower case.
    pub protocol: Option<String>,
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

/// A request as JSON. Times are milliseconds.
#[derive(Deserialize)]
pub(super) struct SentRequest {
    host: String,
    path: Option<String>,
    method: Option<String>,
    status: Option<u16>,
    error: Option<String>,
    protocol: Option<String>,
    #[serde(default)]
    failed: bool,
    wait: Option<f64>,
    dns: Option<f64>,
    connect: Option<f64>,
    tls: Option<f64>,
    first_byte: Option<f64>,
    total: Option<f64>,
    sent: Option<f64>,
    received: Option<f64>,
    redirects: Option<u32>,
}

impl SentRequest {
    pub(super) fn parse_timing(&self) -> Result<RequestTiming, EventError> {
        let host = self.host.trim_end_matches('.').to_ascii_lowercase();
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
        if !(1..=HOST_CHARS).contains(&host.len()) || !host.chars().all(fit) {
            return Err(field_error(
                "requests",
                "need a host name: no scheme, no path, punycode for other characters",
            ));
        }
        let values = [
            self.wait,
            self.dns,
            self.connect,
            self.tls,
            self.first_byte,
            self.total,
            self.sent,
            self.received,
            self.redirects.map(f64::from),
        ];
        if values.into_iter().flatten().any(|value| !is_countable(value)) {
            return Err(field_error("requests", "have a value that is negative or too large"));
        }
        let method = check_word("method", self.method.as_deref())?.map(|method| method.to_ascii_uppercase());
        let endpoint = match &self.path {
            Some(path) => {
                let template = make_template(path)
                    .ok_or_else(|| field_error("requests", "have a `path` that does not begin with `/`"))?;
                let method = method.map(|method| format!("{method} ")).unwrap_or_default();
                Some(format!("{method}{host}{template}"))
            }
            None => None,
        };
        let error = check_word("error", self.error.as_deref())?;
        let is_failure = self.status.is_some_and(|status| status >= FIRST_FAILED_STATUS);
        Ok(RequestTiming {
            host,
            endpoint,
            result: error
                .map(|error| format!("error {error}"))
                .or(self.status.map(|status| status.to_string())),
            protocol: check_word("protocol", self.protocol.as_deref())?
                .map(|protocol| protocol.to_ascii_lowercase()),
            failed: self.failed || is_failure || self.error.is_some(),
            values,
        })
    }
}

/// Returns a word of a few plain characters. A mail address, a query or a text of another script is refused.
fn check_word(field: &str, word: Option<&str>) -> Result<Option<String>, EventError> {
    let Some(word) = word else { return Ok(None) };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | ':' | ' ');
    if !(1..=WORD_CHARS).contains(&word.len()) || !word.chars().all(is_plain) {
        let problem = format!(
            "have a `{field}` that needs 1 to {WORD_CHARS} letters, digits, or characters of `-._/: `"
        );
        return Err(field_error("requests", problem));
    }
    Ok(Some(word.to_owned()))
}

/// Returns a path without what tells persons or things apart: a segment stays if it is a word of up to 24 small letters
/// with `-` or `_` between them, and becomes `#` otherwise. Leaves out the query and the fragment. Segments behind the
/// eighth are one `#`. Returns `None` if the text is no path.
#[must_use]
pub fn make_template(path: &str) -> Option<String> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let segments = path.strip_prefix('/').filter(|_| path.len() <= PATH_BYTES)?;
    let mut template = String::new();
    for (number, segment) in segments.split('/').filter(|segment| !segment.is_empty()).enumerate() {
        template.push('/');
        if number >= MOST_SEGMENTS {
            template.push_str(ANY_SEGMENT);
            break;
        }
        template.push_str(if is_word(segment) { segment } else { ANY_SEGMENT });
    }
    if template.is_empty() {
        template.push('/');
    }
    Some(template)
}

fn is_word(segment: &str) -> bool {
    let letters = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
    segment.len() <= SEGMENT_LETTERS && segment.split(['-', '_']).all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_template_keeps_words_alone() {
        for (path, expected) in [
            ("/", Some("/")),
            ("/orders", Some("/orders")),
            ("/orders/1234/items/", Some("/orders/#/items")),
            ("/v2/users/robin@example.com?token=abc", Some("/#/users/#")),
            ("/Users/Robin#top", Some("/#/#")),
            ("/order-items/sub_total", Some("/order-items/sub_total")),
            ("/-/a--b/_c", Some("/#/#/#")),
            ("/abcdefghijklmnopqrstuvwxyz", Some("/#")),
            ("/%C3%A4/\u{e4}", Some("/#/#")),
            ("/a/b/c/d/e/f/g/h/i/j/k", Some("/a/b/c/d/e/f/g/h/#")),
            ("//a", Some("/a")),
            ("orders", None),
            ("", None),
            ("https://example.com/a", None),
        ] {
            assert_eq!(make_template(path).as_deref(), expected, "{path}");
        }
        assert_eq!(make_template(&format!("/{}", "a/".repeat(2_000))), None);
    }

    /// Returns the template by a second implementation, a state machine over bytes.
    fn machine_template(path: &str) -> String {
        let (mut template, mut segments) = (String::new(), 0);
        let (mut segment, mut after_letter, mut is_word) = (String::new(), false, true);
        for byte in path.bytes().skip(1).chain([b'?']) {
            match byte {
                b'/' | b'?' | b'#' => {
                    if !segment.is_empty() && segments <= MOST_SEGMENTS {
                        let kept = is_word && after_letter && segment.len() <= SEGMENT_LETTERS;
                        template += "/";
                        template += if kept && segments < MOST_SEGMENTS { segment.as_str() } else { "#" };
                        segments += 1;
                    }
                    (segment, after_letter, is_word) = (String::new(), false, true);
                    if byte != b'/' {
                        break;
                    }
                    continue;
                }
                b'a'..=b'z' => after_letter = true,
                b'-' | b'_' if after_letter => after_letter = false,
                _ => is_word = false,
            }
            segment.push(char::from(byte));
        }
        if template.is_empty() { "/".to_owned() } else { template }
    }

    proptest! {
        #[test]
        fn every_path_has_the_template_of_a_second_implementation(path in "/[-a-c01A/_?#]{0,60}") {
            prop_assert_eq!(make_template(&path).unwrap(), machine_template(&path));
        }
    }
}
