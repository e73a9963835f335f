//! Requests that ended without a new revision: answers in the ledger, and dead letters.

use crate::records::enriched::Unreadable;
use prost::Message;
use unslide_artifacts::keys;
use unslide_model::{ReportId, TenantId};
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{Outcome, Resymbolicate, TerminalOutcome};
use unslide_proto::{headers, topics};
use unslide_store::SegmentId;
use unslide_store::requests::RequestOutcome;
use unslide_stream::Record;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    pub tenant: TenantId,
    pub report_id: ReportId,
    /// Variant among the reports with this id.
    pub variant: u32,
    pub revision: u32,
    pub answer: RequestOutcome,
    /// Time at which the request was sent, as it says itself, in microseconds since the Unix epoch.
    pub requested_at_micros: i64,
}

/// Returns the reason for a record that cannot be read.
pub fn not_ledger(detail: String) -> Unreadable {
    Unreadable { reason: "not_ledger", detail }
}

/// Reads the end of a record. Returns `None` for one that answers no request.
pub fn read_answer(variant: u32, terminal: &TerminalOutcome) -> Result<Option<Answered>, Unreadable> {
    let outcome = terminal.outcome();
    let ends = [Outcome::Unchanged, Outcome::FetchingFailed, Outcome::SourceGone, Outcome::DroppedDeleted];
    if !ends.contains(&outcome) {
        return Ok(None);
    }
    // A report that was dropped before it was read has no id, and no request.
    let Ok(id) = <[u8; 16]>::try_from(terminal.report_id.as_ref()) else { return Ok(None) };
    let tenant = TenantId::new(&terminal.tenant).map_err(|e| not_ledger(e.to_string()))?;
    let answer = match keys::segment_named(&tenant, &terminal.segment) {
        _ if outcome == Outcome::Unchanged => RequestOutcome::Unchanged,
        _ if outcome == Outcome::FetchingFailed => RequestOutcome::FetchingFailed,
        Some(segment) => RequestOutcome::Lost(SegmentId::from_uuid(segment)),
        None => RequestOutcome::Gone,
    };
    Ok(Some(Answered {
        tenant,
        report_id: ReportId(id),
        variant,
        revision: terminal.revision,
        answer,
        requested_at_micros: terminal.requested_at_micros,
    }))
}

/// Returns the request that permanently ended with a dead letter, or `None` for other dead letters.
/// A dead letter that another cell passed on names its topic of requests.
pub fn from_dead_letter(record: &Record) -> Option<Answered> {
    // Only workers write this topic and its headers.
    let text = |name| record.headers.get_text(name);
    let reason = text(headers::REASON)?;
    if !text(headers::ORIGIN_TOPIC)?.ends_with(topics::RESYMBOLICATE) {
        return None;
    }
    let Some(value) = record.value.clone() else { return from_headers(record) };
    let request = Resymbolicate::decode(value).ok()?;
    let (tenant, id) = (TenantId::new(&request.tenant).ok()?, request.report_id.as_ref().try_into().ok()?);
    let segment = match &request.body {
        Some(Body::Segment(place)) if reason == "damaged_body" => keys::segment_named(&tenant, &place.key),
        _ => None,
    };
    Some(Answered {
        tenant,
        report_id: ReportId(id),
        variant: request.variant,
        revision: request.revision,
        answer: segment.map_or(RequestOutcome::Dead, |id| RequestOutcome::Lost(SegmentId::from_uuid(id))),
        requested_at_micros: request.requested_at_micros,
    })
}

/// Returns the request that the headers name if the dead letter's value was left out.
fn from_headers(record: &Record) -> Option<Answered> {
    let given = &record.headers;
    Some(Answered {
        tenant: given.get_tenant()?,
        report_id: given.get_text(headers::REPORT_ID)?.parse().ok()?,
        variant: given.get_number(headers::VARIANT).unwrap_or(0),
        revision: given.get_number(headers::REVISION)?,
        answer: RequestOutcome::Dead,
        requested_at_micros: given.get_number(headers::REQUESTED_AT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_proto::report::TerminalOutcome;
    use unslide_stream::{Headers, RecordRef};

    #[test]
    fn a_letter_whose_value_was_left_out_names_its_request_in_its_headers() {
        let id = ReportId([7; 16]);
        let letter = |topic: &'static str, reason: &'static str| Record {
            at: RecordRef { topic: "unslide.dead-letter".into(), partition: 0, offset: 0 },
            time_millis: None,
            key: None,
            value: None,
            headers: Headers::new()
                .with(headers::REASON, reason)
                .with(headers::ORIGIN_TOPIC, topic)
                .with(headers::TENANT, "acme")
                .with(headers::REPORT_ID, id.to_string())
                .with(headers::REVISION, "3")
                .with(headers::VARIANT, "1")
                .with(headers::REQUESTED_AT, "5"),
        };
        for reason in ["panicked", "too_large"] {
            let ended = from_dead_letter(&letter("east.unslide.resymbolicate", reason)).unwrap();
            assert_eq!((ended.report_id, ended.variant, ended.revision), (id, 1, 3));
            assert_eq!((ended.answer, ended.requested_at_micros), (RequestOutcome::Dead, 5));
        }
        assert_eq!(from_dead_letter(&letter("crash.reports", "panicked")), None);
    }

    #[test]
    fn an_end_says_how_a_request_ended_and_which_one_it_was() {
        let end = |outcome: Outcome, requested_at_micros| {
            let terminal = TerminalOutcome {
                tenant: "acme".into(),
                report_id: vec![7; 16].into(),
                revision: 3,
                outcome: outcome.into(),
                requested_at_micros,
                ..TerminalOutcome::default()
            };
            read_answer(0, &terminal).unwrap()
        };
        for (outcome, answer) in [
            (Outcome::Unchanged, RequestOutcome::Unchanged),
            (Outcome::FetchingFailed, RequestOutcome::FetchingFailed),
            (Outcome::SourceGone, RequestOutcome::Gone),
            (Outcome::DroppedDeleted, RequestOutcome::Gone),
        ] {
            let read = end(outcome, 5).unwrap();
            assert_eq!((read.answer, read.revision, read.requested_at_micros), (answer, 3, 5));
        }
        assert!(end(Outcome::Retry, 5).is_none());
    }
}
