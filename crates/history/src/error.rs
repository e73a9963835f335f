//! Failures of ClickHouse, by whether a later try may succeed.

use reqwest::StatusCode;
use unslide_model::one_line;

/// Maximum number of characters of a server's words in an error.
const WORDS_LIMIT: usize = 400;

/// TOO_MANY_ROWS_OR_BYTES: the answer is larger than this client takes.
const TOO_MANY_BYTES: u32 = 396;

/// Codes with which a server or its cluster is overloaded, out of quorum, or cut off: a later try may succeed.
const AWAY_CODES: [u32; 21] = [
    // TIMEOUT_EXCEEDED, TOO_SLOW, TOO_MANY_SIMULTANEOUS_QUERIES, NO_FREE_CONNECTION, SOCKET_TIMEOUT, NETWORK_ERROR
    159, 160, 202, 203, 209, 210,
    // NO_ZOOKEEPER, ABORTED, MEMORY_LIMIT_EXCEEDED, TABLE_IS_READ_ONLY, NOT_ENOUGH_SPACE, TOO_MANY_PARTS
    225, 236, 241, 242, 243, 252,
    // ALL_CONNECTION_TRIES_FAILED, TOO_FEW_LIVE_REPLICAS, UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE, UNKNOWN_STATUS_OF_INSERT
    279, 285, 286, 319,
    // ALL_REPLICAS_ARE_STALE, QUERY_WAS_CANCELLED, UNFINISHED, SERVER_OVERLOADED, KEEPER_EXCEPTION
    369, 394, 341, 745, 999,
];

/// A failed request to ClickHouse.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// It cannot be reached, does not answer in time, or is overloaded. A later try may succeed.
    #[error("ClickHouse is away: {0}")]
    Away(String),
    /// It refuses the request. The next try fails as well, until its rights, its schema or the settings change.
    #[error("ClickHouse refuses the request: {message}")]
    Refused {
        /// The code of the server's exception, if it is one.
        code: Option<u32>,
        /// The server's words, in one line.
        message: String,
    },
    /// A request or an answer is larger than what this client takes.
    #[error("{0}")]
    TooLarge(String),
    /// The settings are invalid.
    #[error("history.{field}: {reason}")]
    Settings {
        /// The setting.
        field: &'static str,
        /// Its problem.
        reason: String,
    },
}

/// The result of a request to ClickHouse.
pub type HistoryResult<T> = std::result::Result<T, HistoryError>;

impl HistoryError {
    /// Returns true if a later try may succeed without a change of rights, schema or settings.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, HistoryError::Away(_))
    }

    /// Returns true if the server refused it for this reason.
    pub(crate) fn has_code(&self, wanted: u32) -> bool {
        matches!(self, HistoryError::Refused { code: Some(code), .. } if *code == wanted)
    }

    /// Makes the error of an answer that is not what the statement asks for.
    pub(crate) fn unreadable(part: &str) -> HistoryError {
        HistoryError::Refused { code: None, message: format!("{part} of its answer cannot be read") }
    }

    /// Makes the error of a request without an answer, or with half of one. The URL is not in it.
    pub(crate) fn from_http(error: reqwest::Error) -> HistoryError {
        let error = error.without_url();
        if error.is_timeout() {
            return HistoryError::Away("no answer in time".into());
        }
        HistoryError::Away(one_line(&name_causes(&error), WORDS_LIMIT))
    }

    /// Makes the error of an answer that tells of a failure. Without a code it comes from a proxy.
    pub(crate) fn from_answer(status: StatusCode, code: Option<u32>, text: &str) -> HistoryError {
        let code = code.or_else(|| read_code(text));
        let words = one_line(hide_values(text), WORDS_LIMIT);
        let message = if words.is_empty() { format!("status {status}") } else { words };
        match code {
            Some(code) if code == TOO_MANY_BYTES => HistoryError::TooLarge(message),
            Some(code) if AWAY_CODES.contains(&code) => HistoryError::Away(message),
            Some(_) => HistoryError::Refused { code, message },
            None if is_away(status) => HistoryError::Away(format!("status {status}: {message}")),
            None => HistoryError::Refused { code: None, message: format!("status {status}: {message}") },
        }
    }
}

fn name_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Reads the code of an exception's text, as servers before 20 have it in no header.
fn read_code(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("Code: ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

/// Returns true for a status with which a proxy says that the server is not there.
fn is_away(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::REQUEST_TIMEOUT
    )
}

/// Leaves out what an exception quotes of the rows that it could not read.
fn hide_values(text: &str) -> &str {
    let quotes =
        ["(at row", "Buffer has gone", "Row 1:", "while reading", "While processing", "while executing"];
    let end = quotes.iter().filter_map(|quote| text.find(quote)).min();
    text.get(..end.unwrap_or(text.len())).unwrap_or(text).trim_end_matches([' ', ':', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(status: u16, code: Option<u32>, text: &str) -> HistoryError {
        HistoryError::from_answer(StatusCode::from_u16(status).unwrap(), code, text)
    }

    #[test]
    fn an_overloaded_server_and_a_proxy_are_away_and_other_codes_are_refusals() {
        for (status, text, away) in [
            (500, "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS) (version 25.8)", true),
            (403, "Code: 497. DB::Exception: default: Not enough privileges. (ACCESS_DENIED)", false),
            (404, "Code: 60. DB::Exception: Unknown table", false),
            (502, "<html>no upstream</html>", true),
            (503, "", true),
            (404, "<html>no such page</html>", false),
        ] {
            assert_eq!(fail(status, None, text).is_away(), away, "{text}");
        }
        assert!(fail(403, None, "Code: 497. x").has_code(497));
        assert!(fail(200, Some(497), "x").has_code(497));
        assert!(matches!(fail(500, Some(396), "Limit for result exceeded"), HistoryError::TooLarge(_)));
    }

    #[test]
    fn an_error_has_one_line_and_no_values_of_rows() {
        let text =
            format!("Code: 27. DB::Exception: Cannot parse input: \n(at row 1)\n{}secret", "x".repeat(1_000));
        let error = fail(400, None, &text).to_string();
        assert!(!error.contains("secret") && !error.contains('\n') && error.len() < 500, "{error}");
    }
}
