//! Any bytes as a request of OTLP in both encodings: read or refused, and every report that is found can be completed.

use unslide_otlp_formats::{
    FoundCrash, TelemetryEncoding, TelemetrySignal, complete_report, find_crash, read_records,
};
use unslide_report::{JsonValue, ReadLimits};

pub fn check(data: &[u8]) {
    for encoding in [TelemetryEncoding::Protobuf, TelemetryEncoding::Json] {
        for signal in [TelemetrySignal::Logs, TelemetrySignal::Spans] {
            let mut seen = 0;
            let read = read_records(data, encoding, signal, &mut |record| {
                assert_eq!(record.index, seen);
                seen += 1;
                if let FoundCrash::Document(document) = find_crash(record)
                    && let Ok(completed) = complete_report(&document.bytes, &document.facts)
                {
                    let limits = ReadLimits { max_bytes: usize::MAX, max_depth: 1_344, ..ReadLimits::default() };
                    let (root, end) = JsonValue::read(&completed, 0, &limits).expect("a completed report is JSON");
                    assert!(root.is_object() && end == completed.len());
                }
            });
            assert!(read.is_err() || read == Ok(seen));
        }
    }
}
