//! The records that the symbolizer writes: enriched reports and dead letters, with the history that
//! every output carries.

use bytes::Bytes;
use unslide_model::{ReportId, Scoped};
use unslide_proto::report::RecordRef as ProtoRef;
use unslide_proto::{headers, keys};
use unslide_stream::{Headers, OutRecord, Record};

/// Where one of several reports lay in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// From 0.
    pub index: usize,
    /// How many there were.
    pub count: usize,
}

/// What an output says of the records that it comes from.
pub struct History<'r> {
    /// The record that it is made from.
    pub source: &'r Record,
    /// Where in that record, if that held an array.
    pub position: Option<Position>,
    /// The first record of its history, where the source knows of one.
    pub origin: Option<ProtoRef>,
    /// The trace that it continues.
    pub traceparent: String,
}

impl History<'_> {
    fn headers(&self) -> Headers {
        let at = &self.source.at;
        let given = &self.source.headers;
        let mut out = Headers::new();
        if let Some(tenant) = given.get(headers::TENANT) {
            out.push(headers::TENANT, tenant.clone());
        }
        // What a record of the input says of its own history is anybody's word.
        let origin = self.origin.clone().unwrap_or_else(|| crate::account::reference(at));
        out.push(headers::ORIGIN_TOPIC, origin.topic);
        out.push(headers::ORIGIN_PARTITION, origin.partition.to_string());
        out.push(headers::ORIGIN_OFFSET, origin.offset.to_string());
        out.push(headers::SOURCE_TOPIC, at.topic.to_string());
        out.push(headers::SOURCE_PARTITION, at.partition.to_string());
        out.push(headers::SOURCE_OFFSET, at.offset.to_string());
        if let Some(millis) = self.source.time_millis {
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
        value: Vec<u8>,
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

    /// A record, or one report of it, that can't be processed: its bytes as they came, and why.
    pub fn dead_letter(&self, topic: &str, value: Option<Bytes>, reason: &str, detail: &str) -> OutRecord {
        let mut headers = self.headers();
        headers.set(headers::REASON, reason.to_owned());
        // A detail may quote the input; a header is no place for much of it.
        let detail: String = detail.chars().take(500).collect();
        headers.set(headers::DETAIL, detail);
        OutRecord { topic: topic.into(), key: self.source.key.clone(), value, headers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn a_record_of_the_input_is_its_own_origin_whatever_it_says_and_an_answer_keeps_the_one_it_is_given() {
        let forged = Headers::new().with(headers::TENANT, "acme").with(headers::ORIGIN_OFFSET, "999");
        let first = record(forged);
        let history = History { source: &first, position: None, origin: None, traceparent: "t".into() };
        let letter = history.dead_letter("dead", Some("v".into()), "not_json", &"x".repeat(900));
        let text = |name| letter.headers.text(name).unwrap_or("-");
        assert_eq!((text(headers::ORIGIN_TOPIC), text(headers::ORIGIN_OFFSET)), ("crash.reports", "40"));
        assert_eq!((text(headers::SOURCE_PARTITION), text(headers::ORIGIN_TIME)), ("2", "1700"));
        assert_eq!((text(headers::TENANT), text(headers::REASON)), ("acme", "not_json"));
        assert_eq!(text(headers::DETAIL).len(), 500);
        assert_eq!(letter.value.as_deref(), Some(b"v".as_slice()));

        let origin = Some(ProtoRef { topic: "first".into(), partition: 7, offset: 9 });
        let position = Some(Position { index: 1, count: 3 });
        let history = History { source: &first, position, origin, traceparent: "t".into() };
        let letter = history.dead_letter("dead", None, "r", "d");
        let text = |name| letter.headers.text(name).unwrap_or("-");
        assert_eq!((text(headers::ORIGIN_TOPIC), text(headers::ORIGIN_OFFSET)), ("first", "9"));
        assert_eq!((text(headers::SOURCE_OFFSET), text(headers::SOURCE_INDEX)), ("40", "1"));
    }
}
