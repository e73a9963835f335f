//! Disk space for running downloads, with a limit per tenant. A single download may exceed the
//! limit, but only one such download runs at a time.

use super::CacheError;
use std::time::Duration;
use tokio::time::timeout;
use unslide_model::Owner;
use unslide_runtime::fairness::{FairPermit, FairSemaphore};

/// One tenant may use one of this many parts.
const TENANT_SPACE_PARTS: u32 = 4;

/// The unit of permits is KiB.
pub(super) struct DownloadSpace(FairSemaphore<Owner>);

/// Reserved space for a download, until it is dropped.
pub(super) struct Reserved {
    kib: u32,
    _permit: FairPermit<Owner>,
}

impl Reserved {
    pub(super) fn can_hold(&self, bytes: u64) -> bool {
        to_kib(bytes) <= self.kib
    }
}

impl DownloadSpace {
    pub(super) fn new(bytes: u64) -> DownloadSpace {
        DownloadSpace(FairSemaphore::new("downloads", to_kib(bytes), to_kib(bytes) / TENANT_SPACE_PARTS))
    }

    /// Returns the number of reserved bytes.
    pub(super) fn reserved_bytes(&self) -> u64 {
        self.0.held_permits() << 10
    }

    /// Reserves bytes; `None` if it would have to wait.
    pub(super) fn reserve_now(&self, owner: &Owner, bytes: u64) -> Option<Reserved> {
        let permit = self.0.acquire_now(owner, to_kib(bytes))?;
        Some(Reserved { kib: to_kib(bytes), _permit: permit })
    }

    /// Waits up to `at_most` until bytes are reserved.
    pub(super) async fn reserve_bytes(
        &self,
        owner: &Owner,
        bytes: u64,
        at_most: Duration,
    ) -> Result<Reserved, CacheError> {
        let permit = timeout(at_most, self.0.acquire(owner, to_kib(bytes))).await;
        let full =
            |_| CacheError::NoRoom("other downloads took the space for a symcache for too long".into());
        Ok(Reserved { kib: to_kib(bytes), _permit: permit.map_err(full)? })
    }
}

fn to_kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const MIB: u64 = 1 << 20;

    fn owner(slug: &str) -> Owner {
        Owner::Tenant(unslide_model::TenantId::new(slug).unwrap())
    }

    /// Proves: fairness
    #[tokio::test(start_paused = true)]
    async fn the_large_of_one_tenant_leave_space_for_the_small_of_others() {
        let space = Arc::new(DownloadSpace::new(8 * MIB));
        let first = space.reserve_now(&owner("noisy"), 4 * MIB).unwrap();
        assert!(first.can_hold(4 * MIB) && !first.can_hold(5 * MIB));
        assert!(space.reserve_now(&owner("noisy"), 4 * MIB).is_none(), "one after the other");
        assert!(space.reserve_now(&owner("noisy"), MIB).is_none(), "its part is used up");
        // However many wait for their turn, others' that are not as large don't wait behind them.
        let queued: Vec<_> = ["noisy", "noisy", "loud", "loud"]
            .map(|slug| {
                let space = Arc::clone(&space);
                tokio::spawn(async move {
                    space.reserve_bytes(&owner(slug), 4 * MIB, Duration::from_secs(9)).await
                })
            })
            .into();
        tokio::task::yield_now().await;
        let second = space.reserve_now(&owner("quiet"), 2 * MIB).unwrap();
        let third = space.reserve_now(&Owner::System, 2 * MIB).unwrap();
        assert_eq!(space.reserved_bytes(), 8 * MIB);
        for waited in queued {
            assert!(matches!(waited.await.unwrap(), Err(CacheError::NoRoom(_))), "not for ever");
        }
        drop((first, second, third));
        assert_eq!(space.reserved_bytes(), 0);
        // What is larger than all of the room has all of it.
        let all = space.reserve_bytes(&owner("noisy"), 100 * MIB, Duration::from_secs(9)).await.unwrap();
        assert!(all.can_hold(100 * MIB));
        assert_eq!(space.reserved_bytes(), 8 * MIB);
    }
}
