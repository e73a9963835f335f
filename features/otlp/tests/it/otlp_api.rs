//! A running api with this feature, public keys and readers of Apple's formats.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Secret;
use unslide_otlp::Config;
use unslide_world::{Answer, World};

pub const APP: &str = "com.example.shop";
pub const SEALING_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// The media type of protobuf.
pub const PROTOBUF: &str = "application/x-protobuf";

/// Starts an api whose tenants' collectors may be on this machine, at a port.
pub async fn start(port: u16) -> World {
    start_with(&[port], |_| {}).await
}

/// Starts an api whose tenants' collectors may be on this machine, at these ports, with settings that `change` changes.
pub async fn start_with(ports: &[u16], change: impl FnOnce(&mut unslide_api::Config)) -> World {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com/".to_owned();
    config.api.otlp.sealing_key = Secret::new(SEALING_KEY);
    config.api.otlp.networks = vec!["127.0.0.0/8".to_owned()];
    config.api.otlp.ports = ports.to_vec();
    config.api.otlp.look_millis = 50;
    let features = [
        unslide_apple_reports::feature(),
        unslide_ingest::feature(unslide_ingest::Config::default()),
        unslide_otlp::feature(config),
    ];
    World::start(unslide_feature::for_api(&features), change).await
}

/// Makes a public key of acme for an app. Returns its text.
pub async fn public_key(world: &World, app: &str) -> String {
    let admin = world.create_master_key("acme").await;
    let made = json!({"name": "app", "apps": [app]});
    let made = world.post_json("/v1/public-keys", &admin, &made).await.expect_status(201);
    made["key"].as_str().unwrap().to_owned()
}

/// An attribute with a text.
pub fn text(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(AnyKind::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// Returns the text of an attribute.
pub fn read_text(attribute: &KeyValue) -> String {
    match attribute.value.clone().unwrap().value {
        Some(AnyKind::StringValue(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// A record of an event with attributes.
pub fn record(event: &str, attributes: Vec<KeyValue>) -> LogRecord {
    LogRecord {
        event_name: event.to_owned(),
        time_unix_nano: 1_795_773_598_000_000_000,
        severity_number: 21,
        attributes,
        ..LogRecord::default()
    }
}

/// A record with a KSCrash report as Embrace writes it.
pub fn embrace(report: &Value) -> LogRecord {
    let payload = report.to_string();
    record(
        "",
        vec![text("emb.type", "sys.ios.crash"), text("emb.payload", &payload), text("session.id", "s-1")],
    )
}

/// A record with Apple's text.
pub fn apple_text(id: &str) -> LogRecord {
    let stack = format!(
        "Incident Identifier: {id}\nHardware Model:      iPhone14,2\nProcess:         Shop [4242]\n\
         Path:            /private/var/Shop.app/Shop\nIdentifier:      {APP}\nVersion:         2.4.1 (241)\n\
         Code Type:       ARM-64\nReport Version:  104\n\nException Type:  EXC_BAD_ACCESS (SIGSEGV)\nCrashed Thread:  0\n\n\
         Thread 0 Crashed:\n0   Shop    0x0000000100004010 0x100000000 + 16400\n\nBinary Images:\n\
         0x100000000 - 0x10000ffff Shop arm64 <70b89f2716343580a69557cdb41d7743> /private/var/Shop.app/Shop\n"
    );
    record("app.crash", vec![text("exception.stacktrace", &stack)])
}

/// A request with these records, of a phone.
pub fn request(records: Vec<LogRecord>) -> ExportLogsServiceRequest {
    let attributes = vec![
        text("service.name", APP),
        text("service.version", "2.4.1"),
        text("app.installation.id", "i-1"),
        text("device.model.identifier", "iPhone14,2"),
    ];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let scope_logs = vec![ScopeLogs { log_records: records, ..ScopeLogs::default() }];
    let logs = ResourceLogs { resource, scope_logs, ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}

/// A request with these records in JSON.
pub fn request_json(records: &[LogRecord]) -> String {
    let records = records.iter().map(|record| {
        let attributes = record
            .attributes
            .iter()
            .map(|attribute| json!({"key": attribute.key, "value": {"stringValue": read_text(attribute)}}));
        let attributes: Vec<Value> = attributes.collect();
        json!({"eventName": record.event_name, "severityNumber": 21, "attributes": attributes})
    });
    let records: Vec<Value> = records.collect();
    json!({"resourceLogs": [{"scopeLogs": [{ "logRecords": records }]}]}).to_string()
}

/// Posts a body of a media type, with an API key unless it is empty.
pub async fn post(
    world: &World,
    path: &str,
    key: &str,
    media: &str,
    body: impl Into<reqwest::Body>,
) -> Answer {
    let request = world.request(Method::POST, path, key).header("content-type", media);
    world.send(request.body(body)).await
}

/// Posts logs in protobuf with a public key.
pub async fn post_logs(world: &World, key: &str, records: Vec<LogRecord>) -> Answer {
    post(world, &format!("/i/{key}/v1/logs"), "", PROTOBUF, request(records).encode_to_vec()).await
}
