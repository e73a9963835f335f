//! Records that are read and records that are written.

use bytes::Bytes;
use rdkafka::message::{BorrowedMessage, Headers as _, Message, Timestamp};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use unslide_model::{PROCESS_USE, ResourceUse, TenantId};
use unslide_proto::headers;

/// The position of a record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordRef {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset within the partition.
    pub offset: i64,
}

impl fmt::Debug for RecordRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.topic, self.partition, self.offset)
    }
}

/// A record's headers, in order. Names may repeat; the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Cow<'static, str>, Bytes)>);

impl Headers {
    /// Makes an empty list.
    #[must_use]
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Appends a header.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Bytes>) {
        self.0.push((name.into(), value.into()));
    }

    /// Removes every header of this name and appends one.
    pub fn set(&mut self, name: &'static str, value: impl Into<Bytes>) {
        self.0.retain(|(n, _)| n != name);
        self.push(name, value);
    }

    /// Adds a header, for building in one expression.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Bytes>) -> Headers {
        self.push(name, value);
        self
    }

    /// Returns the last value of this name, as bytes.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Returns the last value of this name, if it is UTF-8.
    #[must_use]
    pub fn get_text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// Returns the tenant that the headers name, which is a claim unless a service of ours wrote them.
    #[must_use]
    pub fn get_tenant(&self) -> Option<TenantId> {
        TenantId::new(self.get_text(headers::TENANT)?).ok()
    }

    /// Returns the last value of this name, if it is a decimal number.
    #[must_use]
    pub fn get_number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get_text(name)?.parse().ok()
    }

    /// Returns the number of headers of this name.
    #[must_use]
    pub fn count_named(&self, name: &str) -> usize {
        self.0.iter().filter(|(n, _)| n == name).count()
    }

    /// Returns all headers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// Returns the bytes of names and values together.
    #[must_use]
    pub fn size(&self) -> usize {
        // Each header also has two lengths of at most five bytes.
        self.0.iter().map(|(name, value)| name.len() + value.len() + 10).sum()
    }
}

/// Splits records, in their order, into parts. The sizes in a part add up to at most `limit`. A record that
/// is larger begins a part of its own. Records of size 0 begin none.
#[must_use]
pub fn split_by_size(records: Vec<Record>, limit: u64, size: impl Fn(&Record) -> u64) -> Vec<Vec<Record>> {
    let mut parts: Vec<Vec<Record>> = Vec::new();
    let mut sum = 0_u64;
    for record in records {
        let more = size(&record);
        match parts.last_mut() {
            Some(part) if more == 0 || sum.saturating_add(more) <= limit => {
                sum = sum.saturating_add(more);
                part.push(record);
            }
            _ => {
                sum = more;
                parts.push(vec![record]);
            }
        }
    }
    parts
}

/// A record that was read.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its position.
    pub at: RecordRef,
    /// The broker's or the producer's time, whichever the topic keeps, in milliseconds since the
    /// Unix epoch.
    pub time_millis: Option<i64>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` for a tombstone.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
}

impl Record {
    /// Copies a message out of the client's memory.
    pub(crate) fn from_message(message: &BorrowedMessage<'_>, topic: Arc<str>) -> Record {
        let mut headers = Headers::new();
        if let Some(borrowed) = message.headers() {
            for header in borrowed.iter() {
                headers.push(header.key.to_owned(), Bytes::copy_from_slice(header.value.unwrap_or_default()));
            }
        }
        let record = Record {
            at: RecordRef { topic, partition: message.partition(), offset: message.offset() },
            time_millis: match message.timestamp() {
                Timestamp::NotAvailable => None,
                Timestamp::CreateTime(millis) | Timestamp::LogAppendTime(millis) => Some(millis),
            },
            key: message.key().map(Bytes::copy_from_slice),
            value: message.payload().map(Bytes::copy_from_slice),
            headers,
        };
        charge_bytes(record.key.as_ref(), &record.headers, record.size());
        record
    }

    /// Returns the bytes of key, headers and value.
    #[must_use]
    pub fn size(&self) -> usize {
        self.key.as_ref().map_or(0, Bytes::len)
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.headers.size()
    }
}

/// Adds the bytes of a record to what its tenant used: the tenant of its header, or of its key.
pub(crate) fn charge_bytes(key: Option<&Bytes>, headers: &Headers, bytes: usize) {
    let of_key = || std::str::from_utf8(key?).ok()?.split_once('/').map(|(tenant, _)| tenant);
    let tenant = headers.get_text(headers::TENANT).or_else(of_key).and_then(|slug| TenantId::new(slug).ok());
    PROCESS_USE.add(tenant.as_ref(), ResourceUse { kafka_bytes: bytes as u64, ..ResourceUse::default() });
}

/// A record to be written.
#[derive(Clone, Debug, Default)]
pub struct OutRecord {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The key, which decides the partition; without one any partition will do.
    pub key: Option<Bytes>,
    /// The value; `None` writes a tombstone.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
}

impl OutRecord {
    /// Returns a copy of a record for another topic: key, value and headers unchanged.
    #[must_use]
    pub fn copy_of(record: &Record, topic: impl Into<Arc<str>>) -> OutRecord {
        OutRecord {
            topic: topic.into(),
            key: record.key.clone(),
            value: record.value.clone(),
            headers: record.headers.clone(),
        }
    }

    /// Removes the value of a dead letter that its topic does not take. The headers `value-bytes` and `detail` say
    /// that it is not kept.
    pub fn drop_value(&mut self) {
        let Some(bytes) = self.value.take().map(|value| value.len()) else { return };
        let why = self.headers.get_text(headers::DETAIL).unwrap_or_default();
        let detail =
            format!("{why}; the value of {bytes} bytes is too large for a dead letter and is not kept");
        self.headers.set(headers::DETAIL, detail);
        self.headers.set(headers::VALUE_BYTES, bytes.to_string());
    }

    /// Makes a record with a value, to be completed by its builder methods.
    #[must_use]
    pub fn for_topic(topic: impl Into<Arc<str>>, value: impl Into<Bytes>) -> OutRecord {
        OutRecord { topic: topic.into(), value: Some(value.into()), ..OutRecord::default() }
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> OutRecord {
        self.key = Some(key.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<Bytes>) -> OutRecord {
        self.headers.push(name, value);
        self
    }

    /// Returns the bytes of key, headers and value, and of the record's own frame.
    #[must_use]
    pub fn size(&self) -> usize {
        // A batch of one record has 61 bytes of header and at most 36 of lengths and deltas.
        self.key.as_ref().map_or(0, Bytes::len)
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.headers.size()
            + 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_header_of_a_name_counts_and_set_replaces_all() {
        let mut headers = Headers::new().with("a", "1").with("b", "x").with("a", "2");
        assert_eq!(
            (headers.get_number::<u32>("a"), headers.count_named("a"), headers.count_named("c")),
            (Some(2), 2, 0)
        );
        headers.set("a", "3");
        assert_eq!(headers.iter().map(|(n, _)| n).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(headers.get_text("a"), Some("3"));
        assert_eq!(headers.get_number::<u32>("b"), None);
        assert_eq!(headers.get_text("c"), None);
    }

    #[test]
    fn the_bytes_of_a_record_are_those_of_the_tenant_in_its_header_or_key() {
        let key = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        charge_bytes(key("acme/1").as_ref(), &Headers::new(), 10);
        charge_bytes(key("umbrella/1").as_ref(), &Headers::new().with(headers::TENANT, "acme"), 5);
        for other in [None, key("symbolizer-0"), key("/1"), key("No Slug/1")] {
            charge_bytes(other.as_ref(), &Headers::new(), 1);
        }
        let used: Vec<_> =
            PROCESS_USE.take().into_iter().map(|(tenant, used)| (tenant, used.kafka_bytes)).collect();
        assert_eq!(used, [(None, 4), (Some(TenantId::new("acme").unwrap()), 15)]);
    }

    #[test]
    fn a_header_that_is_not_text_reads_as_none() {
        let headers = Headers::new().with("tenant", Bytes::from_static(&[0xFF]));
        assert_eq!(headers.get_text("tenant"), None);
        assert!(headers.get("tenant").is_some());
    }
}
