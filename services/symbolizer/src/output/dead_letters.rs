//! The records that the symbolizer writes: enriched reports and dead letters, with the history that
//! every output carries.

use crate::source_record::SourceRecord;
use bytes::Bytes;
use unslide_model::{ReportId, Scoped, TenantId};
use unslide_proto::report::RecordRef as ProtoRef;
use unslide_proto::{headers, keys};
use unslide_stream::lane::Refusal;
use unslide_stream::{Headers, OutRecord, Record};

/// Where one of several reports lay in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// From 0.
    pub index: usize,
    /// How many there were.
    pub count: usize,
}

/// Where dead letters go.
#[derive(Clone, Debug)]
pub struct DeadLetterTopic {
    /// The topic.
    pub topic: String,
    /// The largest dead letter, in bytes of key, headers and value.
    pub most_bytes: usize,
}

/// What an output says of the records that it comes from.
pub struct Provenance<'r> {
    /// The record that it is made from.
    pub source: &'r Record,
    /// Whose it is, where that was decided.
    pub tenant: Option<&'r TenantId>,
    /// Where in that record, if that held an array.
    pub position: Option<Position>,
    /// The first record of its history.
    pub origin: ProtoRef,
    /// When that arrived, in milliseconds since the Unix epoch.
    pub origin_millis: Option<i64>,
    /// The trace that it continues.
    pub traceparent: String,
    /// It is a request of the store.
    pub request: bool,
}

/// What goes with a record's untouched bytes wherever they are copied: a replay is checked as the
/// first record was.
const CARRIED: [&str; 7] = [
    headers::SIGNATURE,
    headers::SIGNATURE_KEY,
    headers::SIGNED_AT,
    headers::REPLAY_OF,
    headers::REPLAY_SIGNATURE,
    headers::REPLAY_SIGNATURE_KEY,
    headers::REPLAY_SIGNED_AT,
];

/// The headers that say which request of the store a record was: the store learns of its end by a dead letter, too,
/// which may have no value.
const OF_REQUESTS: [&str; 4] =
    [headers::REPORT_ID, headers::REVISION, headers::VARIANT, headers::REQUESTED_AT];

/// The longest header, in bytes, that is copied from a record: nobody fills the topics of copies,
/// which have room for their own headers only, by way of these.
const LONGEST_HEADER: usize = 300;

impl<'r> Provenance<'r> {
    /// The history of what is made from a record.
    pub fn of(entry: &SourceRecord<'r>, tenant: Option<&'r TenantId>, traceparent: String) -> Provenance<'r> {
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

    fn headers(&self) -> Headers {
        let at = &self.source.at;
        let given = &self.source.headers;
        let mut out = Headers::new();
        match self.tenant {
            Some(tenant) => out.push(headers::TENANT, tenant.to_string()),
            // Nobody's: what the record says, for a person to read. One of several names would be taken for
            // the record's own in a replay.
            None if given.count(headers::TENANT) == 1 => carry(given, headers::TENANT, &mut out),
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
        out.push(headers::TRACEPARENT, self.traceparent.clone());
        out.push(headers::UNSLIDE_VERSION, env!("CARGO_PKG_VERSION"));
        out
    }

    /// An enriched report.
    pub fn report(
        &self,
        topic: &str,
        report: &Scoped<ReportId>,
        revision: u32,
        supersedes: Option<u32>,
        value: impl Into<Bytes>,
    ) -> OutRecord {
        let mut headers = self.headers();
        headers.set(headers::TENANT, report.tenant.to_string());
        headers.set(headers::REPORT_ID, report.id.to_string());
        headers.set(headers::REVISION, revision.to_string());
        if let Some(earlier) = supersedes {
            headers.set(headers::SUPERSEDES, earlier.to_string());
        }
        OutRecord { headers, ..OutRecord::to(topic, value).key(keys::report(report)) }
    }

    /// Returns the dead letter of a record, or of one report of it: its key and value unchanged, and the reason. A
    /// compressed record may hold more bytes than the topic takes. Its dead letter has no value and says so, because
    /// one that Kafka refuses would stop the partition.
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

    /// The record, its bytes as they came, for another topic of this installation; `attempt` is how
    /// often it was tried.
    pub fn copy(&self, topic: &str, key: Bytes, reason: &str, attempt: u32, detail: &str) -> OutRecord {
        let mut headers = self.with_reason(reason, detail);
        headers.set(headers::ATTEMPT, attempt.to_string());
        OutRecord { topic: topic.into(), key: Some(key), value: self.source.value.clone(), headers }
    }

    fn with_reason(&self, reason: &str, detail: &str) -> Headers {
        let mut headers = self.headers();
        // One report of an array is not what was signed.
        if self.position.is_none() {
            CARRIED.into_iter().for_each(|name| carry(&self.source.headers, name, &mut headers));
        }
        if self.request {
            OF_REQUESTS.into_iter().for_each(|name| carry(&self.source.headers, name, &mut headers));
        }
        headers.set(headers::REASON, reason.to_owned());
        // A detail may quote the input; a header is no place for much of it.
        let detail: String = detail.chars().take(500).collect();
        headers.set(headers::DETAIL, detail);
        headers
    }
}

fn carry(given: &Headers, name: &'static str, out: &mut Headers) {
    if let Some(value) = given.get(name).filter(|value| value.len() <= LONGEST_HEADER) {
        out.push(name, value.clone());
    }
}

/// Why the lane ended a record's way: a stable word, and the story.
pub fn refusal(why: &Refusal) -> (&'static str, String) {
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
    fn a_letter_never_has_more_bytes_than_its_topic_takes() {
        let names = TopicNames::default();
        let mut large = record(Headers::new());
        large.key = Some(vec![b'k'; 200_000].into());
        let history = Provenance::of(&SourceRecord::of(&large, &names), None, "t".into());
        let letter = history.dead_letter(&letters(), Some(vec![b' '; 300_000].into()), "too_large", "d");
        assert!(letter.size() <= 100_000);
        assert_eq!(
            (letter.value.is_none(), letter.headers.text(headers::VALUE_BYTES)),
            (true, Some("300000"))
        );
        let detail = "d; the value of 300000 bytes is too large for a dead letter and is not kept";
        assert_eq!(letter.headers.text(headers::DETAIL), Some(detail));
        assert_eq!(letter.headers.text(headers::SOURCE_OFFSET), Some("40"));
    }

    #[test]
    fn a_record_of_the_input_is_its_own_origin_whatever_it_says_and_a_copy_is_that_of_the_decided_tenant() {
        let names = TopicNames::default();
        let forged = Headers::new().with(headers::TENANT, "forged").with(headers::ORIGIN_OFFSET, "999");
        let first = record(forged);
        let acme = TenantId::new("acme").unwrap();
        let history = Provenance::of(&SourceRecord::of(&first, &names), Some(&acme), "t".into());
        let letter = history.dead_letter(&letters(), Some("v".into()), "not_json", &"x".repeat(900));
        let text = |name| letter.headers.text(name).unwrap_or("-");
        assert_eq!((text(headers::ORIGIN_TOPIC), text(headers::ORIGIN_OFFSET)), ("crash.reports", "40"));
        assert_eq!((text(headers::SOURCE_PARTITION), text(headers::ORIGIN_TIME)), ("2", "1700"));
        assert_eq!((text(headers::TENANT), text(headers::REASON)), ("acme", "not_json"));
        assert_eq!(text(headers::DETAIL).len(), 500);
        assert_eq!(letter.value.as_deref(), Some(b"v".as_slice()));

        let copy = history.copy(&names.retry_10s, "acme/x".into(), "fetch_failed", 1, "503");
        let mut again = record(copy.headers.clone());
        again.at = RecordRef { topic: names.retry_10s.as_str().into(), partition: 0, offset: 3 };
        let history = Provenance::of(&SourceRecord::of(&again, &names), Some(&acme), "t".into());
        let copy = history.copy(&names.retry_1m, "acme/x".into(), "fetch_failed", 2, "503");
        let text = |name| copy.headers.text(name).unwrap_or("-");
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
        let entry = SourceRecord::of(&request, &names);
        let copy = Provenance::of(&entry, Some(&acme), "t".into()).copy("retry", "k".into(), "r", 1, "d");
        let mut again = record(copy.headers);
        again.at.topic = names.retry_10s.as_str().into();
        let entry = SourceRecord::of(&again, &names);
        let large = Some(vec![b' '; 300_000].into());
        let letter = Provenance::of(&entry, None, "t".into()).dead_letter(&letters(), large, "panicked", "d");
        let text = |name| letter.headers.text(name).unwrap_or("-");
        assert_eq!((letter.value.is_none(), text(headers::TENANT)), (true, "acme"));
        for (name, value) in told().iter() {
            assert_eq!(letter.headers.get(name), Some(value), "{name}");
        }
        // What is no request may say so.
        let input = record(told());
        let history = Provenance::of(&SourceRecord::of(&input, &names), None, "t".into());
        let letter = history.dead_letter(&letters(), None, "not_json", "d");
        assert_eq!(letter.headers.text(headers::REPORT_ID), None);
    }

    /// Proves: sender
    #[test]
    fn signatures_go_with_whole_records_and_no_header_of_the_input_grows_a_copy() {
        let names = TopicNames::default();
        let signed = record(Headers::new().with(headers::SIGNATURE, "s").with(headers::REPLAY_OF, "r"));
        let mut history = Provenance::of(&SourceRecord::of(&signed, &names), None, "t".into());
        let whole = history.dead_letter(&letters(), None, "r", "d");
        assert_eq!(whole.headers.text(headers::SIGNATURE), Some("s"));
        assert_eq!(whole.headers.text(headers::REPLAY_OF), Some("r"));
        history.position = Some(Position { index: 1, count: 3 });
        let part = history.dead_letter(&letters(), None, "r", "d");
        assert_eq!(
            (part.headers.text(headers::SIGNATURE), part.headers.text(headers::SOURCE_INDEX)),
            (None, Some("1"))
        );

        let long = "x".repeat(100_000);
        let mut full = Headers::new().with("anything", long.clone());
        CARRIED.into_iter().chain([headers::TENANT]).for_each(|name| full.push(name, long.clone()));
        let full = record(full);
        let history = Provenance::of(&SourceRecord::of(&full, &names), None, "t".into());
        let copy = history.copy("retry", "k".into(), "r", 1, &long);
        assert!(copy.headers.size() < 4_000, "{}", copy.headers.size());
    }
}
