//! Both encodings of a request give the same records.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use unslide_otlp_formats::{
    FoundCrash, TelemetryEncoding, TelemetryError, TelemetryRecord, TelemetrySignal, find_crash, read_records,
};

/// Returns an attribute in the form of the protocol's library.
pub fn attribute(key: &str, kind: AnyKind) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(kind) }), ..KeyValue::default() }
}

fn resource() -> Option<Resource> {
    let name = attribute("service.name", AnyKind::StringValue("com.example.shop".to_owned()));
    Some(Resource { attributes: vec![name], ..Resource::default() })
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope { name: "io.example.crash".to_owned(), ..InstrumentationScope::default() })
}

fn log_request() -> Vec<u8> {
    let list = ArrayValue { values: vec![AnyValue { value: Some(AnyKind::BoolValue(true)) }] };
    let record = LogRecord {
        time_unix_nano: 1_795_773_598_000_000_000,
        observed_time_unix_nano: 7,
        severity_number: 21,
        event_name: "app.crash".to_owned(),
        attributes: vec![
            attribute("text", AnyKind::StringValue("a \"b\"".to_owned())),
            attribute("flag", AnyKind::BoolValue(true)),
            attribute("number", AnyKind::IntValue(-9)),
            attribute("share", AnyKind::DoubleValue(2.5)),
            attribute("list", AnyKind::ArrayValue(list)),
        ],
        ..LogRecord::default()
    };
    let scope_logs = ScopeLogs { scope: scope(), log_records: vec![record], ..ScopeLogs::default() };
    let group =
        ResourceLogs { resource: resource(), scope_logs: vec![scope_logs], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![group] }.encode_to_vec()
}

const LOG_JSON: &str = r#"{"resourceLogs":[{"unknown":{"a":[1]},"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"com.example.shop"}}]},
 "scopeLogs":[{"scope":{"name":"io.example.crash"},"logRecords":[{"timeUnixNano":"1795773598000000000","observedTimeUnixNano":7,
 "severityNumber":21,"eventName":"app.crash","traceId":"","attributes":[{"key":"text","value":{"stringValue":"a \"b\""}},
 {"key":"flag","value":{"boolValue":true}},{"key":"number","value":{"intValue":"-9"}},{"key":"share","value":{"doubleValue":2.5}},
 {"key":"list","value":{"arrayValue":{"values":[{"boolValue":true}]}}}]}]}]}]}"#;

/// Returns what records say in any encoding.
fn describe(request: &[u8], encoding: TelemetryEncoding, signal: TelemetrySignal) -> Vec<String> {
    let mut seen = Vec::new();
    let read = read_records(request, encoding, signal, &mut |record| {
        let TelemetryRecord { index, scope, name, time_nanos, observed_nanos, severity, .. } = record;
        let attributes = (&record.attributes, &record.resource.facts);
        seen.push(format!(
            "{index} {scope} {name} {severity} time_nanos: {time_nanos} {observed_nanos} {attributes:?}"
        ));
    });
    assert_eq!(read, Ok(seen.len()));
    seen
}

#[test]
fn a_log_is_the_same_in_both_encodings() {
    let protobuf = describe(&log_request(), TelemetryEncoding::Protobuf, TelemetrySignal::Logs);
    let json = describe(LOG_JSON.as_bytes(), TelemetryEncoding::Json, TelemetrySignal::Logs);
    assert_eq!(protobuf, json);
    let [record] = protobuf.as_slice() else { panic!("{protobuf:?}") };
    for part in [
        "app.crash",
        "1795773598000000000",
        "Number(\"-9\")",
        "Number(\"2.5\")",
        "Flag(true)",
        "com.example.shop",
    ] {
        assert!(record.contains(part), "{part}: {record}");
    }
}

#[test]
fn the_time_of_a_span_is_that_of_its_first_event() {
    let event = Event { time_unix_nano: 5_000_000, name: "crash.timestamp".to_owned(), ..Event::default() };
    let span =
        Span { name: "SIGABRT".to_owned(), start_time_unix_nano: 9, events: vec![event], ..Span::default() };
    let scope_spans = ScopeSpans { scope: scope(), spans: vec![span], ..ScopeSpans::default() };
    let group =
        ResourceSpans { resource: resource(), scope_spans: vec![scope_spans], ..ResourceSpans::default() };
    let request = ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec();
    let json = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"com.example.shop"}}]},
        "scopeSpans":[{"scope":{"name":"io.example.crash"},"spans":[{"name":"SIGABRT","startTimeUnixNano":"9",
        "events":[{"timeUnixNano":5000000}]}]}]}]}"#;
    let protobuf = describe(&request, TelemetryEncoding::Protobuf, TelemetrySignal::Spans);
    assert_eq!(protobuf, describe(json.as_bytes(), TelemetryEncoding::Json, TelemetrySignal::Spans));
    assert!(protobuf[0].contains("time_nanos: 5000000"), "{protobuf:?}");
}

#[test]
fn requests_are_bounded_before_their_records_are_held() {
    // Two bytes for each empty record.
    let records = |count: usize| {
        let scope = [0x12, 0x00].repeat(count);
        let group = ScopeLogs::decode(scope.as_slice()).unwrap();
        let logs = ResourceLogs { scope_logs: vec![group], ..ResourceLogs::default() };
        ExportLogsServiceRequest { resource_logs: vec![logs] }.encode_to_vec()
    };
    let read = |request: &[u8]| {
        read_records(request, TelemetryEncoding::Protobuf, TelemetrySignal::Logs, &mut |_| {})
    };
    assert_eq!(read(&records(10_000)), Ok(10_000));
    assert_eq!(read(&records(10_001)), Err(TelemetryError::TooManyRecords));
    let json = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#,
        vec!["{}"; 10_001].join(",")
    );
    let read_json = |request: &str| {
        read_records(request.as_bytes(), TelemetryEncoding::Json, TelemetrySignal::Logs, &mut |_| {})
    };
    assert_eq!(read_json(&json), Err(TelemetryError::TooManyRecords));
    let deep = format!(r#"{{"resourceLogs":{}{}}}"#, "[".repeat(300), "]".repeat(300));
    assert!(matches!(read_json(&deep), Err(TelemetryError::Malformed(_))));
}

/// With a scan for each record this takes hours.
#[test]
fn a_large_resource_is_read_once_for_all_its_records() {
    let large = "\u{1}.".repeat(4 << 20);
    let keys = ["service.name", "service.version", "os.version", "app.installation.id"];
    let attributes = keys.map(|key| attribute(key, AnyKind::StringValue(large.clone()))).to_vec();
    let stack = attribute("exception.stacktrace", AnyKind::StringValue("Process: Shop [1]".to_owned()));
    let record =
        LogRecord { event_name: "app.crash".to_owned(), attributes: vec![stack], ..LogRecord::default() };
    let scope_logs = ScopeLogs { log_records: vec![record; 10_000], ..ScopeLogs::default() };
    let group = ResourceLogs {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_logs: vec![scope_logs],
        ..ResourceLogs::default()
    };
    let request = ExportLogsServiceRequest { resource_logs: vec![group] }.encode_to_vec();
    let mut crashes = 0;
    let read = read_records(&request, TelemetryEncoding::Protobuf, TelemetrySignal::Logs, &mut |record| {
        let FoundCrash::Document(document) = find_crash(record) else { panic!("no crash") };
        assert_eq!(document.facts.app, None);
        assert_eq!(document.facts.version.map(|version| version.len()), Some(200));
        crashes += 1;
    });
    assert_eq!((read, crashes), (Ok(10_000), 10_000));
}

#[test]
fn damaged_requests_are_refused_and_empty_ones_are_not() {
    let whole = log_request();
    for end in 1..whole.len() {
        let read =
            read_records(&whole[..end], TelemetryEncoding::Protobuf, TelemetrySignal::Logs, &mut |_| {});
        assert!(matches!(read, Err(TelemetryError::Malformed(_))), "{end}");
    }
    for (encoding, empty) in [(TelemetryEncoding::Protobuf, ""), (TelemetryEncoding::Json, "{}")] {
        assert!(describe(empty.as_bytes(), encoding, TelemetrySignal::Logs).is_empty());
    }
    for damaged in ["", "[]", "{} {}", "{\"resourceLogs\":"] {
        let read =
            read_records(damaged.as_bytes(), TelemetryEncoding::Json, TelemetrySignal::Logs, &mut |_| {});
        assert!(matches!(read, Err(TelemetryError::Malformed(_))), "{damaged}");
    }
}
