//! Records of accepted and refused elements of requests.

use super::broker::Broker;
use super::refused::RefusedValue;
use crate::http::trace::TraceContext;
use bytes::Bytes;
use std::sync::Arc;
use unslide_model::{ReportId, SenderKeyId, TenantId, cost};
use unslide_proto::{headers, keys};
use unslide_stream::OutRecord;

/// The most bytes of a detail: a header is carried over copies up to 300 bytes.
const MAX_DETAIL_BYTES: usize = 260;

/// Makes the records of one request.
pub struct RecordMaker<'r> {
    /// The broker that takes them.
    pub broker: &'r Broker,
    /// The tenant of the request.
    pub tenant: &'r TenantId,
    /// Names the sender in the details of dead letters, such as `public key 5d1c02ab`. Empty for a key of the API.
    pub sender: &'r str,
    /// The public key of the request, for the erasure of all that came with it.
    pub sender_key: Option<SenderKeyId>,
    /// The trace of the request.
    pub trace: TraceContext,
    /// The topic of the records.
    pub topic: Arc<str>,
}

impl RecordMaker<'_> {
    /// Returns the record of an accepted report. Reports of an app with the same id are in the same partition, in order, unless
    /// the app got more slots between them.
    #[must_use]
    pub fn make_report(&self, bytes: &Bytes, id: Option<ReportId>, app: Option<&str>) -> OutRecord {
        let (app, units) = (keys::find_key_app(app), cost::units_for_record(bytes.len()));
        let slots = app.map_or(1, |app| self.broker.app_slots.count_units(self.tenant, app, units));
        let key = id.map(|id| keys::for_input(&self.tenant.scope(id), app, slots));
        self.make_record(bytes, key)
    }

    /// Returns the record of an accepted event. Events with the same id are in the same partition, in order.
    #[must_use]
    pub fn make_event(&self, bytes: &Bytes, id: &str) -> OutRecord {
        self.make_record(bytes, Some(format!("{}/{id}", self.tenant)))
    }

    fn make_record(&self, bytes: &Bytes, key: Option<String>) -> OutRecord {
        let mut record = build_record(self.broker, self.tenant, self.trace, Arc::clone(&self.topic), bytes);
        if let Some(key) = self.sender_key {
            record = record.header(headers::SENDER_KEY, key.to_string());
        }
        match key {
            Some(key) => record.key(key),
            None => record,
        }
    }

    /// Returns the record of a refused element, with the reason in its headers.
    #[must_use]
    pub fn make_refused(&self, refused: &RefusedValue<'_>) -> OutRecord {
        let bytes = refused.bytes.len();
        let sender = format!("{}/{}", self.tenant, self.sender);
        let is_kept = bytes <= self.broker.capacity.limits.report_bytes
            && self.broker.kept_values.try_keep(sender, refused, self.broker.storage.clock.now().date());
        let value = if is_kept { refused.bytes.clone() } else { Bytes::new() };
        let end = if is_kept { String::new() } else { format!("; its {bytes} bytes are not kept") };
        let start = if self.sender.is_empty() { String::new() } else { format!("{}: ", self.sender) };
        let room = MAX_DETAIL_BYTES.saturating_sub(start.len() + end.len());
        let detail = format!("{start}{}{end}", cut_text(refused.detail, room));
        self.make_record(&value, None)
            .header(headers::REFUSED_REASON, refused.reason)
            .header(headers::REFUSED_DETAIL, detail)
    }
}

/// Returns the longest beginning of a text of at most `most` bytes.
fn cut_text(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// Creates a tenant's record for a topic that gateways write to, signed if the api has a key.
pub fn build_record(
    broker: &Broker,
    tenant: &TenantId,
    trace: TraceContext,
    topic: Arc<str>,
    bytes: &Bytes,
) -> OutRecord {
    let mut record = OutRecord::for_topic(topic, bytes.clone())
        .header(headers::TENANT, tenant.as_str().to_owned())
        .header(headers::TRACEPARENT, trace.format_header());
    if let Some(signer) = &broker.signer {
        let signed = signer.signature_headers(tenant, broker.storage.clock.now_micros() / 1_000, bytes);
        signed.into_iter().for_each(|(name, value)| record.headers.push(name, value));
    }
    record
}
