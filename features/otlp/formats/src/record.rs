//! A record of a log, or a span, with its attributes.

use crate::resource::TelemetryResource;
use std::borrow::Cow;

/// The maximum number of records in a request. OpenTelemetry's SDKs send 512 at once, its collector 8,192.
pub const RECORDS_LIMIT: usize = 10_000;
/// The maximum number of attributes of a record that are read, and of a resource.
pub const ATTRIBUTES_LIMIT: usize = 256;

/// The encoding of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryEncoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// The kind of records in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetrySignal {
    /// `ExportLogsServiceRequest`.
    Logs,
    /// `ExportTraceServiceRequest`.
    Spans,
}

/// The reason for which a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TelemetryError {
    /// The bytes are not of the encoding.
    Malformed(String),
    /// The request has more than the maximum number of records.
    TooManyRecords,
}

impl std::fmt::Display for TelemetryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TelemetryError::Malformed(problem) => write!(f, "the request is no OTLP: {problem}"),
            TelemetryError::TooManyRecords => {
                write!(f, "more than {RECORDS_LIMIT} records; send them in several requests")
            }
        }
    }
}

impl std::error::Error for TelemetryError {}

/// The value of an attribute. Lists, maps and bytes are not read: no sender writes a part of a crash so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A number, in decimal digits.
    Number(String),
    /// A boolean.
    Flag(bool),
}

/// The attributes of a record or a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    entries: Vec<(Cow<'a, str>, AttributeValue<'a>)>,
    seen: usize,
}

impl<'a> Attributes<'a> {
    /// Adds an attribute, unless there are too many. None is one with a value that is not read.
    pub(crate) fn add(&mut self, key: Cow<'a, str>, value: Option<AttributeValue<'a>>) {
        self.seen += 1;
        if let Some(value) = value
            && self.seen <= ATTRIBUTES_LIMIT
        {
            self.entries.push((key, value));
        }
    }

    /// Returns true if there are more attributes than are read.
    #[must_use]
    pub fn has_too_many(&self) -> bool {
        self.seen > ATTRIBUTES_LIMIT
    }

    /// Returns the last value of an attribute.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&AttributeValue<'a>> {
        self.entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the text or the number of an attribute.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            AttributeValue::Text(text) => Some(text.as_ref()).filter(|text| !text.trim().is_empty()),
            AttributeValue::Number(number) => Some(number),
            AttributeValue::Flag(_) => None,
        }
    }
}

/// A record of a log, or a span.
#[derive(Debug)]
pub struct TelemetryRecord<'a> {
    /// Its place in the request, from 0.
    pub index: usize,
    /// Its bytes in the request.
    pub bytes: &'a [u8],
    /// Its resource.
    pub resource: &'a TelemetryResource,
    /// The name of its instrumentation scope.
    pub scope: Cow<'a, str>,
    /// `event_name` of a record, or the name of a span.
    pub name: Cow<'a, str>,
    /// When it happened, in nanoseconds since 1970; 0 if it does not say so.
    pub time_nanos: u64,
    /// When it was observed, in nanoseconds since 1970; 0 if it does not say so.
    pub observed_nanos: u64,
    /// `severity_number`; 0 of a span.
    pub severity: u64,
    /// Its attributes.
    pub attributes: Attributes<'a>,
}

impl TelemetryRecord<'_> {
    /// Returns the text of an attribute of the record.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attributes.text(key)
    }

    /// Returns the names that the record gives its event: the field, and the attributes of older senders.
    pub fn event_names(&self) -> impl Iterator<Item = &str> {
        let attributes = ["event.name", "name"].into_iter().filter_map(|key| self.text(key));
        std::iter::once(self.name.as_ref()).chain(attributes).filter(|name| !name.is_empty())
    }
}
