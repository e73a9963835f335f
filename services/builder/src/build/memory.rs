//! The memory of child processes: the limit of each, and the budget of all that run at the same time.

use crate::config::{CONCURRENT_BACKFILLS, Settings};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use unslide_runtime::fairness::{FairPermit, FairSemaphore};

/// Memory of a child that does not depend on the size of the object that it builds.
const BASE_BYTES: u64 = 64 << 20;

/// The memory that child processes share.
pub(crate) struct MemoryBudget {
    least_bytes: u64,
    /// Maximum for a child, which leaves memory for a small one.
    most_bytes: u64,
    /// KiB of all children. Jobs were taken fairly among tenants before, so the semaphore has no owners.
    free: FairSemaphore<()>,
    /// Permit for a child that needs more than the minimum; one at a time has it.
    large: Arc<Semaphore>,
    /// The minimum for the extra job's child, so that it does not wait for others.
    extra: Arc<Semaphore>,
}

/// Memory of one child, until it is dropped.
pub(crate) struct MemoryGrant {
    pub(crate) bytes: u64,
    _turn: Option<OwnedSemaphorePermit>,
    _permits: Vec<FairPermit<()>>,
}

impl MemoryBudget {
    /// Creates the budget. `feature_places` is the number of places for jobs of features.
    pub(crate) fn new(settings: &Settings, feature_places: usize) -> MemoryBudget {
        let jobs =
            settings.uploads.saturating_add(feature_places).saturating_add(CONCURRENT_BACKFILLS) as u64;
        let all_bytes = settings.build_bytes.saturating_mul(jobs);
        let all = to_kib(all_bytes);
        MemoryBudget {
            least_bytes: settings.build_bytes,
            most_bytes: all_bytes.saturating_sub(settings.build_bytes).max(settings.build_bytes),
            free: FairSemaphore::new("KiB of child processes", all, all),
            large: Arc::new(Semaphore::new(1)),
            extra: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits for memory for a child that builds an object of `size` bytes, or 0 for other tasks. A large
    /// object waits until others leave enough. It collects its memory in pieces, one large object at a time,
    /// so that small objects can continue. A small object of the extra job has reserved memory.
    pub(crate) async fn acquire(&self, size: u64, is_extra: bool) -> MemoryGrant {
        let bytes = self.child_limit(size);
        let shared = self.acquire_shared(bytes);
        if !is_extra || bytes > self.least_bytes {
            return shared.await;
        }
        tokio::select! {
            biased;
            Ok(turn) = Arc::clone(&self.extra).acquire_owned() => {
                MemoryGrant { bytes, _turn: Some(turn), _permits: Vec::new() }
            }
            // A job that was the extra one before may still hold that memory.
            shared = shared => shared,
        }
    }

    async fn acquire_shared(&self, bytes: u64) -> MemoryGrant {
        let turn = match bytes > self.least_bytes {
            true => Arc::clone(&self.large).acquire_owned().await.ok(),
            false => None,
        };
        let (mut permits, mut left) = (Vec::new(), bytes);
        while left > 0 {
            let piece = left.min(self.least_bytes.max(1));
            permits.push(self.free.acquire(&(), to_kib(piece)).await);
            left -= piece;
        }
        MemoryGrant { bytes, _turn: turn, _permits: permits }
    }

    /// Returns the limit of a child. While a symcache is built, it takes less than 1.5 times its object's
    /// size.
    fn child_limit(&self, size: u64) -> u64 {
        if size == 0 {
            return self.least_bytes;
        }
        let needed = size.saturating_add(size / 2).saturating_add(BASE_BYTES);
        needed.min(self.most_bytes).max(self.least_bytes)
    }
}

fn to_kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_large_object_has_memory_for_its_size_and_leaves_some_for_others() {
        let memory = MemoryBudget::new(&Settings::default(), 2);
        assert_eq!(memory.child_limit(0), GIB);
        assert_eq!(memory.child_limit(100 << 20), GIB);
        assert_eq!(memory.child_limit(2 * GIB), 3 * GIB + BASE_BYTES);
        assert_eq!(memory.child_limit(4 * GIB), 4 * GIB);
        assert_eq!(memory.child_limit(u64::MAX), 4 * GIB);
    }

    #[tokio::test]
    async fn small_objects_run_together_and_a_large_one_waits_until_it_fits() {
        let memory = MemoryBudget::new(&Settings::default(), 2);
        let mut small: Vec<MemoryGrant> = Vec::new();
        for _ in 0..5 {
            small.push(memory.acquire(1 << 20, false).await);
        }
        let mut large = Box::pin(memory.acquire(4 * GIB, false));
        assert!((&mut large).now_or_never().is_none());
        small.clear();
        let large = large.await;
        assert_eq!(large.bytes, 4 * GIB);
        // Beside it small ones go on, and another large one waits.
        let mut another = Box::pin(memory.acquire(4 * GIB, false));
        assert!((&mut another).now_or_never().is_none());
        for _ in 0..3 {
            drop(memory.acquire(1 << 20, false).now_or_never().unwrap());
        }
        drop(large);
        assert_eq!(another.await.bytes, 4 * GIB);
    }

    /// Proves: fairness
    #[tokio::test]
    async fn a_small_object_of_the_extra_job_has_memory_beside_all_others() {
        let memory = MemoryBudget::new(&Settings::default(), 2);
        let all = [4 * GIB, 1].map(|size| memory.acquire(size, false).now_or_never().unwrap());
        let mut waits = Box::pin(memory.acquire(1, false));
        assert!((&mut waits).now_or_never().is_none());
        let extra = memory.acquire(1, true).now_or_never().unwrap();
        assert_eq!(extra.bytes, GIB);
        let mut second = Box::pin(memory.acquire(1, true));
        assert!((&mut second).now_or_never().is_none(), "there is memory for one");
        let mut large = Box::pin(memory.acquire(4 * GIB, true));
        assert!((&mut large).now_or_never().is_none(), "a large one waits for the others");
        drop(extra);
        drop(second.await);
        drop((waits, all));
        drop(large.await);
    }
}
