//! Requests in protobuf. Field numbers are those of opentelemetry-proto 1.x.

use crate::attributes::{AttributeValue, Attributes};
use crate::record::{RECORDS_LIMIT, TelemetryError, TelemetryRecord, TelemetryResource, TelemetrySignal};
use crate::wire::{WireFields, WireValue};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

type ReadResult<T> = Result<T, TelemetryError>;
type EachRecord<'e> = dyn FnMut(&TelemetryRecord<'_>) + 'e;

/// Reads a request: `resource_logs` or `resource_spans` is field 1.
pub fn read_request(request: &[u8], signal: TelemetrySignal, each: &mut EachRecord<'_>) -> ReadResult<usize> {
    let mut reading = RequestReading { signal, each, index: 0 };
    each_field(request, &mut |number, value| match (number, value) {
        (1, WireValue::Bytes(group)) => reading.read_resource_group(group),
        _ => Ok(()),
    })?;
    Ok(reading.index)
}

struct RequestReading<'r, 'e> {
    signal: TelemetrySignal,
    each: &'r mut EachRecord<'e>,
    /// The number of records so far.
    index: usize,
}

impl RequestReading<'_, '_> {
    /// Reads `ResourceLogs` or `ResourceSpans`. The resource counts wherever it stands.
    fn read_resource_group(&mut self, group: &[u8]) -> ReadResult<()> {
        let (mut attributes, mut hash) = (Attributes::default(), Sha256::new());
        each_field(group, &mut |number, value| match (number, value) {
            (1, WireValue::Bytes(message)) => {
                hash.update(message);
                read_attributes(message, 1, &mut attributes)
            }
            _ => Ok(()),
        })?;
        let resource = TelemetryResource::from_attributes(&attributes, hash);
        each_field(group, &mut |number, value| match (number, value) {
            (2, WireValue::Bytes(scope)) => self.read_scope_group(scope, &resource),
            _ => Ok(()),
        })
    }

    /// Reads `ScopeLogs` or `ScopeSpans`.
    fn read_scope_group(&mut self, group: &[u8], resource: &TelemetryResource) -> ReadResult<()> {
        let mut scope = Cow::Borrowed("");
        each_field(group, &mut |number, value| match (number, value) {
            (1, WireValue::Bytes(message)) => each_field(message, &mut |number, value| {
                if let (1, Some(name)) = (number, value.as_bytes()) {
                    scope = String::from_utf8_lossy(name);
                }
                Ok(())
            }),
            _ => Ok(()),
        })?;
        each_field(group, &mut |number, value| match (number, value) {
            (2, WireValue::Bytes(record)) => self.read_record(record, resource, &scope),
            _ => Ok(()),
        })
    }

    fn read_record(&mut self, message: &[u8], resource: &TelemetryResource, scope: &str) -> ReadResult<()> {
        if self.index == RECORDS_LIMIT {
            return Err(TelemetryError::TooManyRecords);
        }
        let mut record = TelemetryRecord {
            index: self.index,
            bytes: message,
            resource,
            scope: Cow::Borrowed(scope),
            name: Cow::Borrowed(""),
            time_nanos: 0,
            observed_nanos: 0,
            severity: 0,
            attributes: Attributes::default(),
        };
        match self.signal {
            TelemetrySignal::Logs => read_log(message, &mut record)?,
            TelemetrySignal::Spans => read_span(message, &mut record)?,
        }
        (self.each)(&record);
        self.index += 1;
        Ok(())
    }
}

/// Reads a `LogRecord`.
fn read_log<'a>(message: &'a [u8], record: &mut TelemetryRecord<'a>) -> ReadResult<()> {
    each_field(message, &mut |number, value| {
        match (number, value) {
            (1, value) => record.time_nanos = value.as_unsigned().unwrap_or_default(),
            (2, value) => record.severity = value.as_unsigned().unwrap_or_default(),
            (6, WireValue::Bytes(attribute)) => read_attribute(attribute, &mut record.attributes)?,
            (11, value) => record.observed_nanos = value.as_unsigned().unwrap_or_default(),
            (12, WireValue::Bytes(name)) => record.name = String::from_utf8_lossy(name),
            _ => {}
        }
        Ok(())
    })
}

/// Reads a `Span`. Its time is that of its first event, or else its start.
fn read_span<'a>(message: &'a [u8], record: &mut TelemetryRecord<'a>) -> ReadResult<()> {
    let mut event_nanos = None;
    each_field(message, &mut |number, value| {
        match (number, value) {
            (5, WireValue::Bytes(name)) => record.name = String::from_utf8_lossy(name),
            (7, value) => record.time_nanos = value.as_unsigned().unwrap_or_default(),
            (8, value) => record.observed_nanos = value.as_unsigned().unwrap_or_default(),
            (9, WireValue::Bytes(attribute)) => read_attribute(attribute, &mut record.attributes)?,
            (11, WireValue::Bytes(event)) => each_field(event, &mut |number, value| {
                if number == 1 {
                    event_nanos = event_nanos.or(value.as_unsigned());
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    record.time_nanos = event_nanos.unwrap_or(record.time_nanos);
    Ok(())
}

fn read_attributes<'a>(message: &'a [u8], field: u64, attributes: &mut Attributes<'a>) -> ReadResult<()> {
    each_field(message, &mut |number, value| match value.as_bytes() {
        Some(attribute) if number == field => read_attribute(attribute, attributes),
        _ => Ok(()),
    })
}

/// Reads a `KeyValue`.
fn read_attribute<'a>(message: &'a [u8], attributes: &mut Attributes<'a>) -> ReadResult<()> {
    let (mut key, mut value) = (Cow::Borrowed(""), None);
    each_field(message, &mut |number, field| {
        match (number, field.as_bytes()) {
            (1, Some(name)) => key = String::from_utf8_lossy(name),
            (2, Some(any)) => value = read_value(any)?,
            _ => {}
        }
        Ok(())
    })?;
    attributes.add_attribute(key, value);
    Ok(())
}

/// Reads an `AnyValue`, without the lists and maps in it.
fn read_value(message: &[u8]) -> ReadResult<Option<AttributeValue<'_>>> {
    let mut found = None;
    each_field(message, &mut |number, value| {
        match (number, value) {
            (1, WireValue::Bytes(text)) => found = Some(AttributeValue::Text(String::from_utf8_lossy(text))),
            (2, WireValue::Varint(flag)) => found = Some(AttributeValue::Flag(flag != 0)),
            (3, WireValue::Varint(number)) => {
                found = Some(AttributeValue::Number(number.cast_signed().to_string()));
            }
            (4, WireValue::Fixed64(bits)) => {
                found = Some(AttributeValue::Number(f64::from_bits(bits).to_string()));
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// Calls `each` with the fields of a message.
fn each_field<'a>(
    message: &'a [u8],
    each: &mut dyn FnMut(u64, WireValue<'a>) -> ReadResult<()>,
) -> ReadResult<()> {
    let mut fields = WireFields::from_message(message);
    let damaged = |problem: &str| TelemetryError::Malformed(problem.to_owned());
    while let Some((number, value)) = fields.next().map_err(damaged)? {
        each(number, value)?;
    }
    Ok(())
}
