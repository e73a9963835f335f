//! Ids of crashes, for forms that have none.

use crate::record::TelemetryRecord;
use sha2::{Digest, Sha256};
use uuid::Builder;

/// Returns the id of a record's crash, as a UUID of version 8: the same record twice is one report. It is made from the id that the
/// sender gives, or else from all of the record and its resource: two devices may have equal stacks at equal times.
pub fn id_for_record(record: &TelemetryRecord<'_>) -> String {
    let given = record.text("log.record.uid").or_else(|| record.text("app.crash.id"));
    let mut hash = Sha256::new();
    match given {
        Some(given) => ["given", given].iter().for_each(|text| add_part(&mut hash, text.as_bytes())),
        None => [&record.resource.hash, record.bytes].iter().for_each(|bytes| add_part(&mut hash, bytes)),
    }
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
    Builder::from_custom_bytes(bytes).into_uuid().hyphenated().to_string()
}

fn add_part(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}
