//! A record of a log, or a span, with its attributes.

use crate::attributes::Attributes;
use crate::facts::{TelemetryFacts, format_nanos};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// The maximum number of records in a request. OpenTelemetry's SDKs send 512 at once, its collector 8,192.
pub const RECORDS_LIMIT: usize = 10_000;

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

/// The resource of records. It is read once for all of them, because it may be as large as the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryResource {
    /// The facts that its attributes state.
    pub facts: TelemetryFacts,
    /// The hash of all its bytes: ids of crashes depend on it.
    pub(crate) hash: [u8; 32],
}

impl TelemetryResource {
    /// Reads a resource from its attributes. `hash` has all its bytes in the request.
    pub(crate) fn from_attributes(attributes: &Attributes<'_>, hash: Sha256) -> TelemetryResource {
        TelemetryResource { facts: TelemetryFacts::from_attributes(attributes), hash: hash.finalize().into() }
    }
}

/// A record of a log, or a span.
#[derive(Debug)]
pub struct TelemetryRecord<'a> {
    /// Its place in the request, from 0.
    pub index: usize,
    /// Its bytes in the request.
    pub bytes: &'a [u8],
    /// The resource that sent the record.
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

    /// Returns the facts of the record. Its attributes win over those of its resource.
    #[must_use]
    pub fn read_facts(&self) -> TelemetryFacts {
        let nanos = if self.time_nanos > 0 { self.time_nanos } else { self.observed_nanos };
        let own = TelemetryFacts::from_attributes(&self.attributes).or_resource(&self.resource.facts);
        TelemetryFacts { timestamp: format_nanos(nanos), ..own }
    }

    /// Returns the names that the record gives its event: the field, and the attributes of older senders.
    pub fn event_names(&self) -> impl Iterator<Item = &str> {
        let attributes = ["event.name", "name"].into_iter().filter_map(|key| self.text(key));
        std::iter::once(self.name.as_ref()).chain(attributes).filter(|name| !name.is_empty())
    }
}
