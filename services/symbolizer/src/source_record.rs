//! A record before its value is read: its origin and its tries so far.

use crate::retry_tiers::Tier;
use unslide_proto::report::RecordRef as ProtoRef;
use unslide_proto::topics::TopicNames;
use unslide_proto::{headers, refused, topics};
use unslide_stream::{Record, RecordRef};

/// Reason to copy a record instead of answering it. It is the value of the header `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A symcache could not be fetched for now.
    FetchFailed,
    /// A symcache did not arrive in time.
    Cold,
    /// The tenant is over its rate.
    OverShare,
    /// The tenant is not known yet.
    UnknownTenant,
}

impl Reason {
    /// Returns the value for the header `reason`.
    pub fn header_value(self) -> &'static str {
        match self {
            Reason::FetchFailed => "fetch_failed",
            Reason::Cold => "cold",
            Reason::OverShare => "over_share",
            Reason::UnknownTenant => "unknown_tenant",
        }
    }
}

/// Converts a record's position to the form that messages have.
pub fn to_reference(at: &RecordRef) -> ProtoRef {
    ProtoRef { topic: at.topic.to_string(), partition: at.partition, offset: at.offset }
}

/// A record with its history.
#[derive(Clone, Debug)]
pub struct SourceRecord<'r> {
    pub record: &'r Record,
    /// The first record of its history; for a record of an input topic, the record itself.
    pub origin: ProtoRef,
    /// Arrival time of the origin by the broker's clock, in milliseconds since the Unix epoch.
    pub arrived_millis: Option<i64>,
    /// True for records of topics that only workers write to, so their headers can be trusted.
    pub internal: bool,
    /// True for requests of the store and for copies of them.
    pub request: bool,
}

impl<'r> SourceRecord<'r> {
    /// Reads the history from the record's topic and headers. Any sender can write the headers of an input
    /// topic, so they are ignored there.
    pub fn from_record(record: &'r Record, names: &TopicNames) -> SourceRecord<'r> {
        let internal =
            *record.at.topic == *names.overflow || Tier::for_topic(names, &record.at.topic).is_some();
        let told = if internal { read_origin(record) } else { None };
        let arrived = if internal { record.headers.get_number(headers::ORIGIN_TIME) } else { None };
        let origin = told.unwrap_or_else(|| to_reference(&record.at));
        // A copy that another cell passed on names the topic there.
        let request = origin.topic == names.resymbolicate
            || (internal && origin.topic.ends_with(topics::RESYMBOLICATE));
        let arrived_millis = arrived.or(record.time_millis);
        SourceRecord { record, origin, arrived_millis, internal, request }
    }

    /// Returns how many tries failed for this reason. Tries for another reason don't count: a tenant that
    /// became known late has not used up its fetches.
    pub fn failed_tries(&self, reason: Reason) -> u32 {
        let headers = &self.record.headers;
        if self.internal && headers.get_text(headers::REASON) == Some(reason.header_value()) {
            headers.get_number(headers::ATTEMPT).unwrap_or(0)
        } else {
            0
        }
    }
}

/// Refusal of a record by the service that received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverRefusal<'r> {
    pub reason: &'r str,
    pub detail: &'r str,
}

impl<'r> ReceiverRefusal<'r> {
    /// Reads the refusal from the record's headers. Returns None if the record was not refused for a known
    /// reason.
    pub fn from_record(record: &'r Record) -> Option<ReceiverRefusal<'r>> {
        let reason = record.headers.get_text(headers::REFUSED_REASON)?;
        let detail = record.headers.get_text(headers::REFUSED_DETAIL).unwrap_or_default();
        refused::REASONS.contains(&reason).then_some(ReceiverRefusal { reason, detail })
    }
}

fn read_origin(record: &Record) -> Option<ProtoRef> {
    Some(ProtoRef {
        topic: record.headers.get_text(headers::ORIGIN_TOPIC)?.to_owned(),
        partition: record.headers.get_number(headers::ORIGIN_PARTITION)?,
        offset: record.headers.get_number(headers::ORIGIN_OFFSET)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_stream::{Headers, RecordRef};

    #[test]
    fn a_record_is_refused_for_a_known_reason_only() {
        let record = |reason: &'static str| Record {
            at: RecordRef { topic: "crash.reports".into(), partition: 0, offset: 0 },
            time_millis: None,
            key: None,
            value: None,
            headers: Headers::new()
                .with(headers::REFUSED_REASON, reason)
                .with(headers::REFUSED_DETAIL, "at byte 5"),
        };
        let refused = record("not_json");
        let found = ReceiverRefusal::from_record(&refused);
        assert_eq!(found, Some(ReceiverRefusal { reason: "not_json", detail: "at byte 5" }));
        for wrong in ["", "Not JSON", "kills_worker"] {
            assert_eq!(ReceiverRefusal::from_record(&record(wrong)), None, "{wrong}");
        }
    }

    /// Proves: sender
    #[test]
    fn what_a_record_says_of_its_history_counts_on_internal_topics_only() {
        let names = TopicNames::default();
        let headers = Headers::new()
            .with(headers::ORIGIN_TOPIC, "crash.reports")
            .with(headers::ORIGIN_PARTITION, "3")
            .with(headers::ORIGIN_OFFSET, "77")
            .with(headers::ORIGIN_TIME, "1000")
            .with(headers::REASON, "fetch_failed")
            .with(headers::ATTEMPT, "2");
        let record = |topic: &str| Record {
            at: RecordRef { topic: topic.into(), partition: 1, offset: 5 },
            time_millis: Some(9_000),
            key: None,
            value: None,
            headers: headers.clone(),
        };
        for topic in [&names.retry_1s, &names.retry_10s, &names.retry_1m, &names.retry_10m, &names.overflow] {
            let record = record(topic);
            let entry = SourceRecord::from_record(&record, &names);
            assert_eq!((entry.origin.partition, entry.origin.offset), (3, 77), "{topic}");
            assert_eq!((entry.arrived_millis, entry.failed_tries(Reason::FetchFailed)), (Some(1_000), 2));
            assert_eq!(entry.failed_tries(Reason::UnknownTenant), 0, "tries of another reason");
        }
        for (origin, topic, is_request) in [
            ("east.unslide.resymbolicate", names.retry_10s.as_str(), true),
            ("east.crash.reports", &names.retry_10s, false),
            ("east.unslide.resymbolicate", &names.input, false),
        ] {
            let mut record = record(topic);
            record.headers.set(headers::ORIGIN_TOPIC, origin);
            assert_eq!(SourceRecord::from_record(&record, &names).request, is_request, "{origin}");
        }
        for topic in [names.input.as_str(), "crash.reports.acme", &names.resymbolicate] {
            let record = record(topic);
            let entry = SourceRecord::from_record(&record, &names);
            assert_eq!((entry.origin.topic.as_str(), entry.origin.offset), (topic, 5));
            assert_eq!((entry.arrived_millis, entry.failed_tries(Reason::FetchFailed)), (Some(9_000), 0));
        }
    }
}
