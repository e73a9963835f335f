//! Answers in the encoding of the request: what was taken, a partial success with its sentences, or a status.

use super::request_form::{JSON_TYPE, PROTOBUF_TYPE, RequestForm};
use super::translation::Translation;
use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use prost::Message;
use serde_json::json;
use unslide_api::feature::intake::RefusedElement;
use unslide_api::problem::{Kind, Problem, Rendered};
use unslide_model::TenantId;
use unslide_otlp_formats::{TelemetryEncoding, TelemetrySignal};

/// Sentences in an answer.
const SENTENCES_LIMIT: usize = 5;
/// The most characters of all sentences: clients write them into their log.
const SENTENCE_CHARS_LIMIT: usize = 1_000;
/// Seconds after which a request may be sent again if the failure names no time.
const RETRY_SECONDS: u32 = 5;

/// The outcome of a request after the broker has its records.
#[derive(Debug)]
pub struct TelemetryOutcome {
    pub tenant: TenantId,
    /// The number of reports that were accepted.
    pub accepted: usize,
    /// Reports that were refused, by their place among the reports.
    pub refused: Vec<RefusedElement>,
    pub translation: Translation,
    /// True if the tenant refuses records that are no crash.
    pub refuses_others: bool,
}

/// `google.rpc.Status`, the body of a failure.
#[derive(Clone, PartialEq, Eq, Message)]
struct FailureStatus {
    #[prost(string, tag = "2")]
    message: String,
}

/// `ExportLogsServiceResponse` and `ExportTraceServiceResponse`, which have the same fields.
#[derive(Clone, PartialEq, Eq, Message)]
struct ExportAnswer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// `ExportLogsPartialSuccess` and `ExportTracePartialSuccess`.
#[derive(Clone, PartialEq, Eq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

impl RequestForm {
    /// Answers a request after its records were taken, all or a part of them.
    pub fn answer_outcome(self, outcome: &TelemetryOutcome) -> Response {
        let partial = describe_outcome(outcome);
        let body = match self.encoding {
            TelemetryEncoding::Protobuf => ExportAnswer { partial_success: partial }.encode_to_vec(),
            TelemetryEncoding::Json => {
                let rejected = match self.signal {
                    TelemetrySignal::Logs => "rejectedLogRecords",
                    TelemetrySignal::Spans => "rejectedSpans",
                };
                let answer = partial.map_or_else(
                    || json!({}),
                    |partial| {
                        let number = partial.rejected.to_string();
                        json!({"partialSuccess": {rejected: number, "errorMessage": partial.error_message}})
                    },
                );
                answer.to_string().into_bytes()
            }
        };
        self.respond(StatusCode::OK, body)
    }

    /// Answers a request that failed. The answer names neither the key nor the tenant. What may be sent again is 429 or 503.
    pub fn answer_problem(self, problem: &Problem, request_id: &str) -> Response {
        problem.log_fault(request_id);
        let status = problem.kind().status();
        let seconds = problem.retry_seconds();
        let (status, seconds) = match problem.kind() {
            // No client sends again after 408.
            Kind::BodyTimeout => (StatusCode::SERVICE_UNAVAILABLE, Some(seconds.unwrap_or(RETRY_SECONDS))),
            _ if status.is_server_error() => {
                (StatusCode::SERVICE_UNAVAILABLE, Some(seconds.unwrap_or(RETRY_SECONDS)))
            }
            _ => (status, seconds),
        };
        let message = describe_problem(problem, seconds.unwrap_or(RETRY_SECONDS));
        let body = match self.encoding {
            TelemetryEncoding::Protobuf => FailureStatus { message }.encode_to_vec(),
            TelemetryEncoding::Json => json!({ "message": message }).to_string().into_bytes(),
        };
        let mut response = self.respond(status, body);
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn respond(self, status: StatusCode, body: Vec<u8>) -> Response {
        let kind = match self.encoding {
            TelemetryEncoding::Protobuf => PROTOBUF_TYPE,
            TelemetryEncoding::Json => JSON_TYPE,
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response.extensions_mut().insert(Rendered);
        response
    }
}

fn describe_problem(problem: &Problem, seconds: u32) -> String {
    match problem.kind() {
        Kind::Unauthorized => "unknown key".to_owned(),
        // The detail of the api names the tenant.
        Kind::RateLimited | Kind::TenantBusy | Kind::Overloaded => {
            format!("too many requests, retry after {seconds} s")
        }
        kind if kind.status().is_server_error() => format!("try again in {seconds} s"),
        kind => problem.detail().unwrap_or_else(|| kind.title()).to_owned(),
    }
}

/// Returns what a client should know: refused records with their number, or warnings. None if all was taken.
fn describe_outcome(outcome: &TelemetryOutcome) -> Option<PartialSuccess> {
    let translation = &outcome.translation;
    let mut sentences = translation.problems.clone();
    for refused in &outcome.refused {
        let place = translation.places.get(refused.index).copied().unwrap_or_default();
        sentences.push(format!("record {place}: {}", refused.detail));
    }
    let mut rejected = translation.unreadable + outcome.refused.len();
    if outcome.refuses_others && translation.others > 0 {
        rejected += translation.others;
        sentences.push(format!("{} records are no crash, and this tenant refuses them", translation.others));
    }
    sentences.extend(translation.warnings.iter().cloned());
    if sentences.is_empty() {
        return None;
    }
    let shown = sentences.len().min(SENTENCES_LIMIT);
    let left = sentences.len() - shown;
    sentences.truncate(shown);
    if left > 0 {
        sentences.push(format!("and {left} more"));
    }
    let error_message = sentences.join("; ").chars().take(SENTENCE_CHARS_LIMIT).collect();
    Some(PartialSuccess { rejected: i64::try_from(rejected).unwrap_or(i64::MAX), error_message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(translation: Translation, refuses_others: bool) -> TelemetryOutcome {
        let tenant = TenantId::new("acme").unwrap();
        TelemetryOutcome { tenant, accepted: 1, refused: Vec::new(), translation, refuses_others }
    }

    #[test]
    fn a_rejection_has_a_number_and_sentences_and_a_warning_has_none_rejected() {
        assert_eq!(
            describe_outcome(&outcome(Translation { others: 3, ..Translation::default() }, false)),
            None
        );
        let refused = describe_outcome(&outcome(Translation { others: 3, ..Translation::default() }, true));
        assert_eq!(refused.unwrap().rejected, 3);
        let warned = Translation { warnings: vec!["record 0: cut".to_owned()], ..Translation::default() };
        let warned = describe_outcome(&outcome(warned, false)).unwrap();
        assert_eq!((warned.rejected, warned.error_message.as_str()), (0, "record 0: cut"));
        let problems = (0..9).map(|at| format!("record {at}: no")).collect();
        let many = Translation { unreadable: 9, problems, ..Translation::default() };
        let many = describe_outcome(&outcome(many, false)).unwrap();
        assert!(many.rejected == 9 && many.error_message.ends_with("record 4: no; and 4 more"), "{many:?}");
    }

    #[test]
    fn a_fault_is_never_answered_with_500() {
        let form = RequestForm::for_unknown_type(TelemetrySignal::Logs);
        for problem in [
            Problem::internal("a secret"),
            Problem::unavailable("Kafka", 30),
            Problem::from_kind(Kind::BodyTimeout),
        ] {
            let response = form.answer_problem(&problem, "");
            assert_eq!(response.status(), 503);
            assert!(response.headers().contains_key(RETRY_AFTER));
        }
        let refused = form.answer_problem(&Problem::from_kind(Kind::TooLarge), "");
        assert_eq!((refused.status().as_u16(), refused.headers().get(RETRY_AFTER)), (413, None));
    }
}
