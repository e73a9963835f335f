//! Responses to requests that hyper cannot read, because hyper's own responses have no body.

use crate::problem::{Kind, MEDIA_TYPE, Problem};
use bytes::Bytes;
use http::StatusCode;

/// Maximum size of a response by hyper itself.
const MOST_BYTES: usize = 256;

/// Returns the same response with problem details if these bytes are hyper's own. Responses of the
/// application have headers beside those that hyper writes.
pub fn with_problem(answer: &[u8]) -> Option<Bytes> {
    if answer.len() > MOST_BYTES || !answer.starts_with(b"HTTP/1.") {
        return None;
    }
    let head = std::str::from_utf8(answer).ok()?.strip_suffix("\r\n\r\n")?;
    let (status_line, headers) = head.split_once("\r\n")?;
    let is_hypers = |header: &str| {
        matches!(header, "connection: close" | "content-length: 0") || header.starts_with("date: ")
    };
    if !headers.split("\r\n").all(is_hypers) {
        return None;
    }
    let status = StatusCode::from_bytes(status_line.as_bytes().get(9..12)?).ok()?;
    let kind = match status {
        StatusCode::BAD_REQUEST | StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            Kind::from_status(status)
        }
        _ => return None,
    };
    let body = Problem::from_kind(kind).encode_body(None);
    let head = format!(
        "{status_line}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
        body.len()
    );
    Some([head.into_bytes(), body].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "date: Thu, 01 Jan 1970 00:00:00 GMT";

    #[test]
    fn an_answer_of_hypers_own_gets_problem_details_and_no_other_is_changed() {
        for (status, slug) in [
            ("400 Bad Request", "invalid-request"),
            ("414 URI Too Long", "uri-too-long"),
            ("431 Request Header Fields Too Large", "head-too-large"),
        ] {
            let own =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n{DATE}\r\n\r\n");
            let changed = with_problem(own.as_bytes()).unwrap();
            let changed = std::str::from_utf8(&changed).unwrap();
            let (head, body) = changed.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{head}");
            assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
            assert!(body.contains(&format!("\"/problems/{slug}\"")), "{body}");
        }
        for other in [
            format!("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n{DATE}\r\n\r\n"),
            format!("HTTP/1.1 400 Bad Request\r\nx-request-id: a\r\ncontent-length: 0\r\n{DATE}\r\n\r\n"),
            format!("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n{DATE}\r\n\r\n{{}}"),
            "HTTP/1.1 400 Bad Request\r\n".to_owned(),
            String::new(),
        ] {
            assert!(with_problem(other.as_bytes()).is_none(), "{other}");
        }
    }
}
