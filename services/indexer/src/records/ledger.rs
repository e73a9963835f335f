//! Entries of the ledger: answers to requests, and what symbolizers used.

use crate::records::Parsed;
use crate::records::answers::{not_ledger, read_answer};
use crate::records::enriched::Unreadable;
use prost::Message;
use unslide_model::{ResourceUse, TenantId};
use unslide_proto::headers;
use unslide_proto::report::{self, LedgerRecord, ledger_record::Entry};
use unslide_store::outbox;
use unslide_store::resource_uses::UseStatement;
use unslide_stream::Record;

/// Reads a record of the ledger.
pub fn read_entry(record: &Record) -> Result<Parsed, Unreadable> {
    let variant = record.headers.get_number(headers::VARIANT).unwrap_or(0);
    let value = record.value.clone().ok_or_else(|| not_ledger("the record has no value".to_owned()))?;
    let record = LedgerRecord::decode(value).map_err(|e| not_ledger(e.to_string()))?;
    match record.entry {
        Some(Entry::Terminal(terminal)) => {
            Ok(read_answer(variant, &terminal)?.map_or(Parsed::Nothing, Parsed::Answer))
        }
        Some(Entry::Uses(uses)) => Ok(Parsed::Uses(UseStatement {
            worker: record.worker,
            at: outbox::from_micros(record.at_micros),
            uses: uses.uses.iter().map(read_use).collect(),
        })),
        Some(Entry::Batch(_)) | None => Ok(Parsed::Nothing),
    }
}

/// A tenant's name that cannot be read counts as what no tenant caused.
fn read_use(used: &report::ResourceUse) -> (Option<TenantId>, ResourceUse) {
    let amounts = ResourceUse {
        cpu_micros: used.cpu_micros,
        kafka_bytes: used.kafka_bytes,
        object_requests: used.object_requests,
        object_bytes: used.object_bytes,
        stored: used.stored,
    };
    (TenantId::new(&used.tenant).ok(), amounts)
}
