//! The form of an event as a record.

use crate::store::WaitingEvent;
use time::OffsetDateTime;
use unslide_model::{ReportId, TenantId};
use unslide_proto::stored::StoredEvent;
use unslide_proto::{Message, headers, keys};
use unslide_store::outbox::to_micros;
use unslide_store::sql::from_row32;
use unslide_stream::OutRecord;

/// Makes the record of an event of this tenant.
pub fn build_record(topic: &str, tenant: &TenantId, event: &WaitingEvent) -> OutRecord {
    let key = match event.report_id {
        Some(id) => keys::for_report(&tenant.scope(ReportId::from_uuid(id.uuid()))),
        None => keys::for_tenant(tenant),
    };
    OutRecord::for_topic(topic, build_message(tenant, event).encode_to_vec())
        .key(key)
        .header(headers::TENANT, tenant.to_string())
        .header(headers::IDEMPOTENCY_KEY, event.number.to_string())
        .header(headers::UNSLIDE_VERSION, env!("CARGO_PKG_VERSION"))
}

/// Makes the message of an event of this tenant.
pub fn build_message(tenant: &TenantId, event: &WaitingEvent) -> StoredEvent {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let count = |value: Option<i32>| value.map_or(0, from_row32);
    let micros = |at: Option<OffsetDateTime>| at.map_or(0, to_micros);
    StoredEvent {
        tenant: tenant.to_string(),
        report_id: event.report_id.map(|id| id.to_string()).unwrap_or_default(),
        variant: from_row32(event.variant),
        revision: from_row32(event.revision),
        version: event.number,
        deleted: event.deleted,
        app: text(&event.app),
        app_version: text(&event.app_version),
        app_build: text(&event.app_build),
        kind: text(&event.kind),
        fatal: event.fatal.unwrap_or_default(),
        status: text(&event.status),
        exception: text(&event.exception),
        signal: text(&event.signal),
        fault: text(&event.fault),
        group_id: event.group_id.map(|id| id.to_string()).unwrap_or_default(),
        received_at_micros: micros(event.received_at),
        occurred_at_micros: micros(event.occurred_at),
        stored_at_micros: micros(Some(event.queued_at)),
        os_name: text(&event.os_name),
        os_version: text(&event.os_version),
        os_build: text(&event.os_build),
        model: text(&event.model),
        cpu_arch: text(&event.cpu_arch),
        teller: text(&event.teller),
        weight: count(event.weight),
        same_crash_as: event.same_crash_as.map(|id| id.to_string()).unwrap_or_default(),
        frames: count(event.frames_total),
        frames_symbolicated: count(event.frames_symbolicated),
        frames_missing: count(event.frames_missing),
        own_frames: count(event.frames_own),
        own_frames_symbolicated: count(event.frames_own_symbolicated),
        symbols_missing: event.symbols_missing.unwrap_or_default(),
    }
}
