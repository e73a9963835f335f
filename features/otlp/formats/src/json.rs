//! Requests in JSON: lowerCamelCase keys, integers of 64 bits as text or number, unknown keys ignored.

use crate::attributes::{AttributeValue, Attributes};
use crate::record::{RECORDS_LIMIT, TelemetryError, TelemetryRecord, TelemetryResource, TelemetrySignal};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use unslide_report::{JsonValue, ReadLimits};

/// Names of members, which differ between logs and spans.
struct MemberNames {
    groups: &'static str,
    scopes: &'static str,
    records: &'static str,
    name: &'static str,
    time: &'static str,
    observed: &'static str,
}

const LOGS: MemberNames = MemberNames {
    groups: "resourceLogs",
    scopes: "scopeLogs",
    records: "logRecords",
    name: "eventName",
    time: "timeUnixNano",
    observed: "observedTimeUnixNano",
};
const SPANS: MemberNames = MemberNames {
    groups: "resourceSpans",
    scopes: "scopeSpans",
    records: "spans",
    name: "name",
    time: "startTimeUnixNano",
    observed: "endTimeUnixNano",
};

/// Reads a request.
pub fn read_request(
    request: &[u8],
    signal: TelemetrySignal,
    each: &mut dyn FnMut(&TelemetryRecord<'_>),
) -> Result<usize, TelemetryError> {
    let names = match signal {
        TelemetrySignal::Logs => &LOGS,
        TelemetrySignal::Spans => &SPANS,
    };
    let damaged = |problem: String| TelemetryError::Malformed(problem);
    // The body is bounded already.
    let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
    let (root, end) = JsonValue::read(request, 0, &limits).map_err(|error| damaged(error.to_string()))?;
    if !root.is_object() || !request.get(end..).unwrap_or_default().trim_ascii().is_empty() {
        return Err(damaged("a request is one JSON object".to_owned()));
    }
    let mut index = 0;
    for group in items_of(root, names.groups) {
        let (mut attributes, mut hash) = (Attributes::default(), Sha256::new());
        if let Some(found) = group.get("resource") {
            hash.update(found.raw_bytes());
            read_attributes(found, &mut attributes);
        }
        let resource = TelemetryResource::from_attributes(&attributes, hash);
        for scope in items_of(group, names.scopes) {
            let name = scope.find_path(&["scope", "name"]).and_then(JsonValue::decode_string);
            let name = name.unwrap_or_default();
            for record in items_of(scope, names.records) {
                if index == RECORDS_LIMIT {
                    return Err(TelemetryError::TooManyRecords);
                }
                each(&read_record(record, names, index, &resource, &name));
                index += 1;
            }
        }
    }
    Ok(index)
}

fn items_of<'a>(object: JsonValue<'a>, key: &str) -> Vec<JsonValue<'a>> {
    object.get(key).map(JsonValue::items).unwrap_or_default()
}

fn read_record<'a>(
    object: JsonValue<'a>,
    names: &MemberNames,
    index: usize,
    resource: &'a TelemetryResource,
    scope: &'a str,
) -> TelemetryRecord<'a> {
    let number = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::decimal_unsigned);
    let [name, time, observed, severity, events] =
        object.find_members([names.name, names.time, names.observed, "severityNumber", "events"]);
    let event = events.and_then(JsonValue::first_item).and_then(|event| number(event.get("timeUnixNano")));
    let mut attributes = Attributes::default();
    read_attributes(object, &mut attributes);
    TelemetryRecord {
        index,
        bytes: object.raw_bytes(),
        resource,
        scope: Cow::Borrowed(scope),
        name: Cow::Owned(name.and_then(JsonValue::decode_string).unwrap_or_default()),
        time_nanos: event.or(number(time)).unwrap_or_default(),
        observed_nanos: number(observed).unwrap_or_default(),
        severity: number(severity).unwrap_or_default(),
        attributes,
    }
}

fn read_attributes<'a>(object: JsonValue<'a>, attributes: &mut Attributes<'a>) {
    let Some(list) = object.get("attributes") else { return };
    list.each_item(|attribute| {
        let [key, value] = attribute.find_members(["key", "value"]);
        let key = key.and_then(JsonValue::decode_string).unwrap_or_default();
        attributes.add_attribute(Cow::Owned(key), value.and_then(read_value));
    });
}

fn read_value(value: JsonValue<'_>) -> Option<AttributeValue<'_>> {
    let [text, flag, integer, fraction] =
        value.find_members(["stringValue", "boolValue", "intValue", "doubleValue"]);
    if let Some(text) = text.and_then(JsonValue::as_text) {
        return Some(AttributeValue::Text(Cow::Owned(text.decode().into_owned())));
    }
    if let Some(flag) = flag.and_then(JsonValue::as_boolean) {
        return Some(AttributeValue::Flag(flag));
    }
    let number = integer.or(fraction)?;
    let digits = match number.decode_string() {
        Some(text) => text,
        None => number.as_number().map(|_| String::from_utf8_lossy(number.raw_bytes()).into_owned())?,
    };
    Some(AttributeValue::Number(digits))
}
