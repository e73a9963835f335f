//! Reports with keys.

use serde_json::{Map, Value};
use unslide_harness::database::{arrival, grouping, start};
use unslide_model::{ContentHash, ReportId};
use unslide_store::GroupId;
use unslide_store::groups::id_of;
use unslide_store::reports::Arrival;

pub const APP: &str = "com.acme.shop";

/// Returns report number `n` of a bug, with these keys. Later numbers arrive later.
pub fn with_keys(n: u16, bug: u8, keys: Value) -> Arrival {
    let mut bytes = [7; 16];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    let mut report = arrival(1);
    report.report_id = ReportId(bytes);
    report.content_hash = ContentHash([bytes, bytes].concat().try_into().unwrap());
    report.received_at = start() + time::Duration::seconds(n.into());
    report.facts.grouping = Some(grouping(bug, false));
    report.facts.context = Value::Object(Map::from_iter([("keys".to_owned(), keys)]));
    report
}

/// Returns the group of a bug.
pub fn group_of(bug: u8) -> GroupId {
    id_of(APP, grouping(bug, false).fingerprint)
}
