//! Enriched reports, dead letters and copies that the symbolizer writes, with the history that every output
//! carries.

use crate::source_record::SourceRecord;
use bytes::Bytes;
use unslide_model::{ReportId, Scoped, TenantId};
use unslide_proto::report::RecordRef as ProtoRef;
use unslide_proto::{headers, keys};
use unslide_stream::lane::Refusal;
use unslide_stream::{Headers, OutRecord, Record};

/// Position of one of several reports in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Index in the array, from 0.
    pub index: usize,
    /// Number of elements in the array.
    pub count: usize,
}

/// The topic of dead letters and its limit.
#[derive(Clone, Debug)]
pub struct DeadLetterTopic {
    pub topic: String,
    /// The largest dead letter, in bytes of key, headers and value.
    pub most_bytes: usize,
}

/// Origin of an output: the records that it comes from.
pub struct Provenance<'r> {
    /// The record that the output is made from.
    pub source: &'r Record,
    /// The tenant of the record, if one was decided.
    pub tenant: Option<&'r TenantId>,
    /// Position in that record, if the record holds an array.
    pub position: Option<Position>,
    /// The first record of the history.
    pub origin: ProtoRef,
    /// Arrival time of the origin, in milliseconds since the Unix epoch.
    pub origin_millis: Option<i64>,
    /// The trace that the output continues.
    pub traceparent: String,
    /// True if the record is a request of the store.
    pub request: bool,
}

/// Headers that are copied with a record's unchanged bytes, so that a replay is checked like the first
/// record, and a record that the api refused stays refused.
const CARRIED: [&str; 9] = [
    headers::SIGNATURE,
    headers::SIGNATURE_KEY,
    headers::SIGNED_AT,
    headers::REPLAY_OF,
    headers::REPLAY_SIGNATURE,
    headers::REPLAY_SIGNATURE_KEY,
    headers::REPLAY_SIGNED_AT,
    headers::REFUSED_REASON,
    headers::REFUSED_DETAIL,
];

/// Headers that identify a request of the store. They are copied because the store also learns of a request's
/// end by a dead letter, which may have no value.
const OF_REQUESTS: [&str; 4] =
    [headers::REPORT_ID, headers::REVISION, headers::VARIANT, headers::REQUESTED_AT];

/// Longest header, in bytes, that is copied from a record. The topics of copies only have capacity for their
/// own headers, and a sender must not exceed it with longer ones.
const LONGEST_HEADER: usize = 300;

impl<'r> Provenance<'r> {
    /// Creates the provenance of outputs that are made from a record.
    pub fn from_record(
        entry: &SourceRecord<'r>,
        tenant: Option<&'r TenantId>,
        traceparent: String,
    ) -> Provenance<'r> {
        Provenance {
            source: entry.record,
            tenant,
            position: None,
            origin: entry.origin.clone(),
            origin_millis: entry.arrived_millis,
            traceparent,
            request: entry.request,
        }
    }

    fn build_headers(&self) -> Headers {
        let at = &self.source.at;
        let given = &self.source.headers;
        let mut out = Headers::new();
        match self.tenant {
            Some(tenant) => out.push(headers::TENANT, tenant.to_string()),
            // No tenant was decided: a person can read the name that the record claims. If it claims several,
            // one of them would count as the record's own in a replay.
            None if given.count_named(headers::TENANT) == 1 => carry_header(given, headers::TENANT, &mut out),
            None => {}
        }
        out.push(headers::ORIGIN_TOPIC, self.origin.topic.clone());
        out.push(headers::ORIGIN_PARTITION, self.origin.partition.to_string());
        out.push(headers::ORIGIN_OFFSET, self.origin.offset.to_string());
        out.push(headers::SOURCE_TOPIC, at.topic.to_string());
        out.push(headers::SOURCE_PARTITION, at.partition.to_string());
        out.push(headers::SOURCE_OFFSET, at.offset.to_string());
        if let Some(millis) = self.origin_millis {
            out.push(headers::ORIGIN_TIME, millis.to_string());
        }
        if let Some(Position { index, count }) = self.position {
            out.push(headers::SOURCE_INDEX, index.to_string());
            out.push(headers::SOURCE_COUNT, count.to_string());
        }
        carry_header(given, headers::SENDER_KEY, &mut out);
        out.push(headers::TRACEPARENT, self.traceparent.clone());
        out.push(headers::UNSLIDE_VERSION, env!("CARGO_PKG_VERSION"));
        out
    }

    /// Returns the output record of an enriched report.
    pub fn build_report(
        &self,
        topic: &str,
        report: &Scoped<ReportId>,
        revision: u32,
        supersedes: Option<u32>,
        value: impl Into<Bytes>,
    ) -> OutRecord {
        let mut headers = self.build_headers();
        headers.set(headers::TENANT, report.tenant.to_string());
        headers.set(headers::REPORT_ID, report.id.to_string());
        headers.set(headers::REVISION, revision.to_string());
        if let Some(earlier) = supersedes {
            headers.set(headers::SUPERSEDES, earlier.to_string());
        }
        OutRecord { headers, ..OutRecord::for_topic(topic, value).key(keys::for_report(report)) }
    }

    /// Returns the dead letter of a record, or of one report in it, with the unchanged key and value and the
    /// reason. A compressed record may hold more bytes than the topic accepts. Its dead letter has no value
    /// and says so, because a record that Kafka refuses would stop the partition.
    pub fn dead_letter(
        &self,
        to: &DeadLetterTopic,
        value: Option<Bytes>,
        reason: &str,
        detail: &str,
    ) -> OutRecord {
        let headers = self.with_reason(reason, detail);
        let key = self.source.key.clone();
        let mut letter = OutRecord { topic: to.topic.as_str().into(), key, value, headers };
        if letter.size() > to.most_bytes {
            letter.drop_value();
        }
        if letter.size() > to.most_bytes {
            letter.key = None;
        }
        letter
    }

    /// Returns a copy of the record with unchanged bytes for another topic of this installation. `attempt` is
    /// the number of tries so far.
    pub fn copy_to(&self, topic: &str, key: Bytes, reason: &str, attempt: u32, detail: &str) -> OutRecord {
        let mut headers = self.with_reason(reason, detail);
        headers.set(headers::ATTEMPT, attempt.to_string());
        OutRecord { topic: topic.into(), key: Some(key), value: self.source.value.clone(), headers }
    }

    fn with_reason(&self, reason: &str, detail: &str) -> Headers {
        let mut headers = self.build_headers();
        // The signature covers the whole record, not one report of an array.
        if self.position.is_none() {
            CARRIED.into_iter().for_each(|name| carry_header(&self.source.headers, name, &mut headers));
        }
        if self.request {
            OF_REQUESTS.into_iter().for_each(|name| carry_header(&self.source.headers, name, &mut headers));
        }
        headers.set(headers::REASON, reason.to_owned());
        // A detail may quote the input, so its length in a header is limited.
        let detail: String = detail.chars().take(500).collect();
        headers.set(headers::DETAIL, detail);
        headers
    }
}

fn carry_header(given: &Headers, name: &'static str, out: &mut Headers) {
    if let Some(value) = given.get(name).filter(|value| value.len() <= LONGEST_HEADER) {
        out.push(name, value.clone());
    }
}

/// Returns why the lane refused a record: a stable reason and a description.
pub fn describe_refusal(why: &Refusal) -> (&'static str, String) {
    match why {
        Refusal::KillsWorker { attempts } => (
            "kills_worker",
            format!("the process died {attempts} times with this record first in its partition"),
        ),
        Refusal::Unpublishable { detail } => ("unpublishable", detail.clone()),
        Refusal::Panicked { detail } => ("panicked", detail.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_proto::topics::TopicNames;
    use unslide_stream::RecordRef;

    fn record(headers: Headers) -> Record {
        Record {
            at: RecordRef { topic: "crash.reports".into(), partition: 2, offset: 40 },
            time_millis: Some(1_700),
            key: Some("k".into()),
            value: Some("v".into()),
            headers,
        }
    }

    fn letters() -> DeadLetterTopic {
        DeadLetterTopic { topic: "dead".into(), most_bytes: 100_000 }
    }

    #[test]
    fn every_output_names_the_public_key_of_its_record() {
        let names = TopicNames::default();
        let sent = record(Headers::new().with(headers::SENDER_KEY, "0a1b2c3d"));
        let tenant = TenantId::new("acme").unwrap();
        let history =
            Provenance::from_record(&SourceRecord::from_record(&sent, &names), Some(&tenant), "t".into());
        let one = Provenance { position: Some(Position { index: 0, count: 2 }), ..history };
        let report = tenant.scope(ReportId([7; 16]));
        for output in [
            one.build_report("out", &report, 1, None, "{}"),
            one.dead_letter(&letters(), Some("v".into()), "not_json", "d"),
            one.copy_to("retry", "k".into(), "fetch_failed", 1, "d"),
        ] {
            assert_eq!(output.headers.get_text(headers::SENDER_KEY), Some("0a1b2c3d"), "{}", output.topic);
        }
    }

    #[test]
    fn a_letter_never_has_more_bytes_than_its_topic_takes() {
        let names = TopicNames::default();
        let mut large = record(Headers::new());
        large.key = Some(vec![b'k'; 200_000].into());
        let history = Provenance::from_record(&SourceRecord::from_record(&large, &names), None, "t".into());
        let letter = history.dead_letter(&letters(), Some(vec![b' '; 300_000].into()), "too_large", "d");
        assert!(letter.size() <= 100_000);
        assert_eq!(
            (letter.value.is_none(), letter.headers.get_text(headers::VALUE_BYTES)),
            (true, Some("300000"))
        );
        let detail = "d; the value of 300000 bytes is too large for a dead letter and is not kept";
        assert_eq!(letter.headers.get_text(headers::DETAIL), Some(detail));
        assert_eq!(letter.headers.get_text(headers::SOURCE_OFFSET), Some("40"));
    }

    #[test]
    fn a_record_of_the_input_is_its_own_origin_whatever_it_says_and_a_copy_is_that_of_the_decided_tenant() {
        let names = TopicNames::default();
        let forged = Headers::new().with(headers::TENANT, "forged").with(headers::ORIGIN_OFFSET, "999");
        let first = record(forged);
        let acme = TenantId::new("acme").unwrap();
        let history =
            Provenance::from_record(&SourceRecord::from_record(&first, &names), Some(&acme), "t".into());
        let letter = history.dead_letter(&letters(), Some("v".into()), "not_json", &"x".repeat(900));
        let text = |name| letter.headers.get_text(name).unwrap_or("-");
        assert_eq!((text(headers::ORIGIN_TOPIC), text(headers::ORIGIN_OFFSET)), ("crash.reports", "40"));
        assert_eq!((text(headers::SOURCE_PARTITION), text(headers::ORIGIN_TIME)), ("2", "1700"));
        assert_eq!((text(headers::TENANT), text(headers::REASON)), ("acme", "not_json"));
        assert_eq!(text(headers::DETAIL).len(), 500);
        assert_eq!(letter.value.as_deref(), Some(b"v".as_slice()));

        let copy = history.copy_to(&names.retry_10s, "acme/x".into(), "fetch_failed", 1, "503");
        let mut again = record(copy.headers.clone());
        again.at = RecordRef { topic: names.retry_10s.as_str().into(), partition: 0, offset: 3 };
        let history =
            Provenance::from_record(&SourceRecord::from_record(&again, &names), Some(&acme), "t".into());
        let copy = history.copy_to(&names.retry_1m, "acme/x".into(), "fetch_failed", 2, "503");
        let text = |name| copy.headers.get_text(name).unwrap_or("-");
        assert_eq!((text(headers::ORIGIN_TOPIC), text(headers::ORIGIN_OFFSET)), ("crash.reports", "40"));
        assert_eq!((text(headers::SOURCE_TOPIC), text(headers::SOURCE_OFFSET)), ("unslide.retry.10s", "3"));
        assert_eq!((text(headers::ATTEMPT), text(headers::ORIGIN_TIME)), ("2", "1700"));
    }

    #[test]
    fn a_letter_of_a_request_says_which_one_it_was_also_without_its_value() {
        let names = TopicNames::default();
        let told = || {
            Headers::new()
                .with(headers::REPORT_ID, "r")
                .with(headers::REVISION, "2")
                .with(headers::VARIANT, "1")
                .with(headers::REQUESTED_AT, "5")
        };
        let acme = TenantId::new("acme").unwrap();
        let mut request = record(told());
        request.at.topic = names.resymbolicate.as_str().into();
        let entry = SourceRecord::from_record(&request, &names);
        let copy = Provenance::from_record(&entry, Some(&acme), "t".into()).copy_to(
            "retry",
            "k".into(),
            "r",
            1,
            "d",
        );
        let mut again = record(copy.headers);
        again.at.topic = names.retry_10s.as_str().into();
        let entry = SourceRecord::from_record(&again, &names);
        let large = Some(vec![b' '; 300_000].into());
        let letter =
            Provenance::from_record(&entry, None, "t".into()).dead_letter(&letters(), large, "panicked", "d");
        let text = |name| letter.headers.get_text(name).unwrap_or("-");
        assert_eq!((letter.value.is_none(), text(headers::TENANT)), (true, "acme"));
        for (name, value) in told().iter() {
            assert_eq!(letter.headers.get(name), Some(value), "{name}");
        }
        // A record that is not a request may claim to be one.
        let input = record(told());
        let history = Provenance::from_record(&SourceRecord::from_record(&input, &names), None, "t".into());
        let letter = history.dead_letter(&letters(), None, "not_json", "d");
        assert_eq!(letter.headers.get_text(headers::REPORT_ID), None);
    }

    /// Proves: sender
    #[test]
    fn signatures_go_with_whole_records_and_no_header_of_the_input_grows_a_copy() {
        let names = TopicNames::default();
        let signed = record(Headers::new().with(headers::SIGNATURE, "s").with(headers::REPLAY_OF, "r"));
        let mut history =
            Provenance::from_record(&SourceRecord::from_record(&signed, &names), None, "t".into());
        let whole = history.dead_letter(&letters(), None, "r", "d");
        assert_eq!(whole.headers.get_text(headers::SIGNATURE), Some("s"));
        assert_eq!(whole.headers.get_text(headers::REPLAY_OF), Some("r"));
        history.position = Some(Position { index: 1, count: 3 });
        let part = history.dead_letter(&letters(), None, "r", "d");
        assert_eq!(
            (part.headers.get_text(headers::SIGNATURE), part.headers.get_text(headers::SOURCE_INDEX)),
            (None, Some("1"))
        );

        let long = "x".repeat(100_000);
        let mut full = Headers::new().with("anything", long.clone());
        CARRIED.into_iter().chain([headers::TENANT]).for_each(|name| full.push(name, long.clone()));
        let full = record(full);
        let history = Provenance::from_record(&SourceRecord::from_record(&full, &names), None, "t".into());
        let copy = history.copy_to("retry", "k".into(), "r", 1, &long);
        assert!(copy.headers.size() < 4_000, "{}", copy.headers.size());
    }
}
