//! OTLP, as far as crashes of apps need it: records of logs and spans, and the crash reports in them.
//!
//! A request is read one record at a time, within bounds, and nothing is copied that is not a part of a crash. `protobuf` and `json`
//! read the two encodings, `crash` finds the crash of a record, `facts` what the attributes say about the app and the device, and
//! `completion` adds that to a report. A package of its own, so that the fuzzer needs no server.

#![warn(missing_docs)]

mod attributes;
mod completion;
mod crash;
mod crash_document;
mod facts;
mod identity;
mod json;
mod metric_kit;
mod protobuf;
mod record;
mod span_crash;
mod wire;

pub use attributes::{AttributeValue, Attributes};
pub use completion::{complete_report, write_batch};
pub use crash::{FoundCrash, find_crash};
pub use crash_document::CrashDocument;
pub use facts::TelemetryFacts;
pub use record::{TelemetryEncoding, TelemetryError, TelemetryRecord, TelemetryResource, TelemetrySignal};

/// Calls `each` with the records of a request, in their order. Returns their number.
///
/// # Errors
/// Returns [`TelemetryError`] if the request cannot be read, or has too many records. Some records may have been passed on by then.
pub fn read_records(
    request: &[u8],
    encoding: TelemetryEncoding,
    signal: TelemetrySignal,
    each: &mut dyn FnMut(&TelemetryRecord<'_>),
) -> Result<usize, TelemetryError> {
    match encoding {
        TelemetryEncoding::Protobuf => protobuf::read_request(request, signal, each),
        TelemetryEncoding::Json => json::read_request(request, signal, each),
    }
}
