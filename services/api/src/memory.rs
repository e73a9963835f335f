//! The bound on report bodies that are in memory at the same time.

use crate::config::Limits;
use crate::problem::{Kind, Problem};
use crate::state::Api;
use http::{HeaderMap, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// KiB of report bodies that may be in memory.
#[must_use]
pub fn room(limits: &Limits) -> usize {
    let each = limits.ingest_bytes.max(limits.ingest_unpacked_bytes) >> 10;
    let all = each.saturating_mul(limits.bodies as u64);
    usize::try_from(all).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Room for `bytes` of report bodies, given back when it is dropped.
///
/// # Errors
/// [`Kind::Overloaded`] where there is none left: the client may come again.
pub fn reserve(api: &Api, bytes: u64) -> Result<OwnedSemaphorePermit, Problem> {
    let kib = u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX);
    let permits = api.memory.clone().try_acquire_many_owned(kib);
    permits.map_err(|_| Problem::new(Kind::Overloaded, "too many reports are being received").retry_after(1))
}

/// How many bytes a body will have: what the headers say, but `limit` where they say nothing.
#[must_use]
pub fn announced(headers: &HeaderMap, limit: u64) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.unwrap_or(limit).min(limit)
}
