//! Answers: one line of ASCII text, because it becomes an error message in an app's log, and a body that is not UTF-8 ends
//! a KSCrash 2.x app. JSON for a client that prefers it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use unslide_api::feature::intake::{ReceivedReport, RefusedElement, list_refused, parse_weights};
use unslide_api::problem::{Kind, Problem, Rendered};

/// The most bytes of a line.
const MAX_LINE_BYTES: usize = 200;

/// The outcome of a request after the broker has its records.
#[derive(Debug, Serialize)]
pub struct Received {
    /// Ids of the reports that were accepted; null for a text.
    pub accepted: Vec<Option<String>>,
    /// The reports that were refused.
    pub refused: Vec<RefusedElement>,
    /// Words for one and for several of the elements.
    #[serde(skip)]
    words: [&'static str; 2],
    /// True if they wait in overflow for the rate of their key.
    #[serde(skip)]
    pub is_in_overflow: bool,
}

impl Received {
    /// Returns the outcome of a request without elements yet. The words are for one and for several of them.
    pub fn for_things(one: &'static str, many: &'static str) -> Received {
        Received { accepted: Vec::new(), refused: Vec::new(), words: [one, many], is_in_overflow: false }
    }

    /// Lists the outcomes of reports.
    pub fn from_reports(reports: &[ReceivedReport]) -> Received {
        let accepted = reports.iter().filter_map(|report| match report {
            ReceivedReport::Accepted(report) => Some(report.id.map(|id| id.to_string())),
            ReceivedReport::Refused(_) => None,
        });
        let words = ["report", "reports"];
        Received {
            accepted: accepted.collect(),
            refused: list_refused(reports),
            words,
            is_in_overflow: false,
        }
    }

    fn summary_line(&self) -> String {
        let (accepted, all) = (self.accepted.len(), self.accepted.len() + self.refused.len());
        let [one, many] = self.words;
        let things = if all == 1 { one } else { many };
        match self.refused.first() {
            None => format!("accepted {all} {things}"),
            Some(first) => {
                format!("accepted {accepted} of {all} {things}; {one} {}: {}", first.index, first.detail)
            }
        }
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// One line of ASCII text.
    Text,
    /// JSON, and problem details for a failure.
    Json,
}

impl AnswerForm {
    /// Returns the form that the client prefers.
    pub fn from_headers(headers: &HeaderMap) -> AnswerForm {
        let [json, text] = parse_weights(headers, [("application", "json"), ("text", "plain")]);
        if json > text { AnswerForm::Json } else { AnswerForm::Text }
    }

    /// Answers a request after the broker has its records.
    pub fn answer_accepted(self, received: &Received) -> Response {
        match self {
            AnswerForm::Text => line_response(StatusCode::ACCEPTED, &received.summary_line()),
            AnswerForm::Json => (StatusCode::ACCEPTED, Json(received)).into_response(),
        }
    }

    /// Answers any method but POST.
    pub fn refuse_method(self) -> Response {
        let mut response =
            self.answer_refused(&Problem::new(Kind::MethodNotAllowed, "send reports with POST"), "");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        response
    }

    /// Answers a request that failed. The answer names neither the key nor the tenant.
    pub fn answer_refused(self, problem: &Problem, request_id: &str) -> Response {
        let line = failure_line(problem);
        if self == AnswerForm::Json {
            // A fault keeps its cause for the log.
            if problem.kind().status().is_server_error() {
                return problem.clone().into_response();
            }
            let told = Problem::new(problem.kind(), line);
            return match problem.retry_seconds() {
                Some(seconds) => told.retry_after(seconds).into_response(),
                None => told.into_response(),
            };
        }
        problem.log_fault(request_id);
        let mut response = line_response(problem.kind().status(), &line);
        if let Some(seconds) = problem.retry_seconds() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn failure_line(problem: &Problem) -> String {
    let seconds = problem.retry_seconds().unwrap_or_default();
    match problem.kind() {
        Kind::Unauthorized => "unknown key".to_owned(),
        // The detail of the api names the tenant.
        Kind::RateLimited => format!("too many reports, retry after {seconds} s"),
        Kind::TenantBusy | Kind::Overloaded => format!("too many requests, retry after {seconds} s"),
        kind if kind.status().is_server_error() => format!("try again in {} s", seconds.max(1)),
        kind => problem.detail().unwrap_or_else(|| kind.title()).to_owned(),
    }
}

/// Returns a response of one line. No layer changes or packs it.
fn line_response(status: StatusCode, line: &str) -> Response {
    let printable = |letter: char| if letter == ' ' || letter.is_ascii_graphic() { letter } else { '?' };
    let line: String = line.chars().map(printable).take(MAX_LINE_BYTES).collect();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = (status, [(CONTENT_TYPE, kind)], line).into_response();
    response.extensions_mut().insert(Rendered);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_first_refused_report_and_never_the_tenant() {
        let refused = |index| RefusedElement {
            index,
            id: None,
            reason: "truncated".to_owned(),
            detail: "cut".to_owned(),
        };
        let received = |accepted: usize, refused| Received {
            accepted: vec![None; accepted],
            refused,
            ..Received::for_things("report", "reports")
        };
        assert_eq!(received(1, vec![]).summary_line(), "accepted 1 report");
        assert_eq!(received(4, vec![refused(2)]).summary_line(), "accepted 4 of 5 reports; report 2: cut");
        let limited = Problem::new(Kind::RateLimited, "Rate limit exceeded for tenant acme").retry_after(7);
        assert_eq!(failure_line(&limited), "too many reports, retry after 7 s");
        assert_eq!(failure_line(&Problem::internal("a secret")), "try again in 1 s");
        assert_eq!(failure_line(&Problem::from_kind(Kind::Unauthorized)), "unknown key");
    }

    #[test]
    fn a_line_is_short_and_ascii() {
        let response = line_response(StatusCode::ACCEPTED, &"ä\n".repeat(300));
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        assert_eq!(response.headers().get("content-encoding"), None);
    }
}
