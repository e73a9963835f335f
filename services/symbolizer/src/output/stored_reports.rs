//! Bodies of stored reports that a request only points to. They are fetched from their segments before the
//! requests are processed.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use std::time::Duration;
use unslide_artifacts::keys::ObjectKey;
use unslide_artifacts::{ObjectStore, StorageError, segment};
use unslide_model::TenantId;
use unslide_proto::Message;
use unslide_proto::report::resymbolicate::Body;
use unslide_proto::report::{Resymbolicate, SegmentRef};
use unslide_stream::lane::Pause;
use unslide_stream::{Record, RecordRef, split_by_size};

/// Number of frames that are fetched concurrently.
const CONCURRENT_FETCHES_LIMIT: usize = 16;
/// Bytes of frames that are in memory at the same time; one frame may be larger.
const GROUP_BYTES: u64 = 16 << 20;
/// Pause after a failure that an operator has to fix.
const REFUSED_FETCH_BACKOFF: Duration = Duration::from_secs(10);

/// Result of fetching a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// Bytes that should be a frame.
    Frame(Bytes),
    /// The segment does not exist.
    Gone,
    /// The body cannot be fetched for now, with the reason.
    Failed(String),
}

/// Fetched bodies by the position of their request.
pub type Bodies = HashMap<RecordRef, Fetch>;

/// Returns the segment in which the request says that its body is stored.
fn segment_place(record: &Record) -> Option<(TenantId, SegmentRef)> {
    let request = Resymbolicate::decode(record.value.clone()?).ok()?;
    match request.body {
        Some(Body::Segment(segment)) => Some((TenantId::new(&request.tenant).ok()?, segment)),
        _ => None,
    }
}

/// Returns the key of a request's segment, which must be one of its own tenant's segments.
///
/// # Errors
/// Returns a description of the problem if the key is not valid.
pub fn segment_key(tenant: &TenantId, segment: &SegmentRef) -> Result<ObjectKey, String> {
    let key =
        ObjectKey::parse_for_tenant(tenant, &segment.key).map_err(|e| format!("{}: {e}", segment.key))?;
    let own = format!("t/{tenant}/segments/");
    if key.as_str().starts_with(&own) { Ok(key) } else { Err(format!("{key} is no segment of {tenant}")) }
}

/// Splits a batch into groups, so that the stored bodies of a group fit into memory together. Records that
/// are not requests are not decoded.
pub fn split_groups(batch: Vec<Record>, is_request: impl Fn(&Record) -> bool) -> Vec<Vec<Record>> {
    split_by_size(batch, GROUP_BYTES, |record| {
        let place = if is_request(record) { segment_place(record) } else { None };
        place.map_or(0, |(_, segment)| segment.length)
    })
}

/// Fetches the bodies that requests point to, if the request may read them.
///
/// # Errors
/// Returns [`Pause`] if object storage refuses, which no record causes.
pub async fn fetch_bodies(
    objects: &ObjectStore,
    requests: impl Iterator<Item = &Record>,
) -> Result<Bodies, Pause> {
    let wanted = requests.filter_map(|record| {
        let (tenant, segment) = segment_place(record)?;
        Some((record.at.clone(), segment_key(&tenant, &segment).ok()?, segment))
    });
    let fetching = stream::iter(wanted.collect::<Vec<_>>()).map(|(at, key, place)| async move {
        let fetched = match segment::fetch_frame(objects, &key, place.offset, place.length).await {
            Ok(Some(frame)) => Fetch::Frame(frame),
            Ok(None) => Fetch::Gone,
            Err(error) if error.is_operators_fault() => return Err(pause_for_refusal(&key, &error)),
            Err(error) => Fetch::Failed(error.to_string()),
        };
        Ok((at, fetched))
    });
    fetching.buffer_unordered(CONCURRENT_FETCHES_LIMIT).try_collect().await
}

fn pause_for_refusal(key: &ObjectKey, error: &StorageError) -> Pause {
    tracing::error!(object.key = %key, error = %error, "a stored report cannot be fetched");
    let reason = format!("a stored report cannot be fetched: {}", error.without_key());
    Pause { reason, wait: REFUSED_FETCH_BACKOFF }
}
