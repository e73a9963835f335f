//! Room on the disk for what is being downloaded, of which one tenant gets a part only.

use super::CacheError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use unslide_model::TenantId;

/// The part of the room that the downloads of one tenant may take; a single one may be larger. Of
/// those there is one at a time, so that they leave room to the others.
const OF_ONE_TENANT: u32 = 4;
/// Tenants beyond this are looked through for those that download nothing.
const MANY: usize = 1_000;

/// Whose room; no tenant stands for the system.
type Owner = Option<TenantId>;

pub(super) struct Room {
    all: Arc<Semaphore>,
    /// All of it, in KiB.
    most: u32,
    part: u32,
    large: Arc<Semaphore>,
    owners: Mutex<HashMap<Owner, Arc<Semaphore>>>,
}

/// Room for so many bytes, given back when it is dropped.
pub(super) struct Taken {
    kib: u32,
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Taken {
    pub(super) fn fits(&self, bytes: u64) -> bool {
        kib(bytes) <= self.kib
    }
}

impl Room {
    pub(super) fn new(bytes: u64) -> Room {
        let most = kib(bytes);
        let large = Arc::new(Semaphore::new(1));
        let part = (most / OF_ONE_TENANT).max(1);
        Room { all: Arc::new(Semaphore::new(most as usize)), most, part, large, owners: Mutex::default() }
    }

    /// Bytes that are taken.
    pub(super) fn taken(&self) -> u64 {
        u64::from(self.most).saturating_sub(self.all.available_permits() as u64) << 10
    }

    /// Room for so many bytes, where there is some at once.
    pub(super) fn try_take(&self, owner: &Owner, bytes: u64) -> Option<Taken> {
        let turns = self.turns(owner, bytes);
        let permits = turns.into_iter().map(|(from, many)| from.try_acquire_many_owned(many).ok());
        Some(Taken { kib: kib(bytes), _permits: permits.collect::<Option<_>>()? })
    }

    /// The same, waited for so long.
    pub(super) async fn take(
        &self,
        owner: &Owner,
        bytes: u64,
        at_most: Duration,
    ) -> Result<Taken, CacheError> {
        let waiting = async {
            let mut permits = Vec::new();
            for (from, many) in self.turns(owner, bytes) {
                permits.extend(from.acquire_many_owned(many).await.ok());
            }
            permits
        };
        let full = |_| CacheError::NoRoom("other downloads took the room for a symcache for too long".into());
        Ok(Taken { kib: kib(bytes), _permits: timeout(at_most, waiting).await.map_err(full)? })
    }

    /// What has to be had, in this order: who waits for its own part takes nothing of the others'.
    fn turns(&self, owner: &Owner, bytes: u64) -> Vec<(Arc<Semaphore>, u32)> {
        let size = kib(bytes).min(self.most);
        let mut turns = vec![(self.part_of(owner), size.min(self.part))];
        if size > self.part {
            turns.push((Arc::clone(&self.large), 1));
        }
        turns.push((Arc::clone(&self.all), size));
        turns
    }

    fn part_of(&self, owner: &Owner) -> Arc<Semaphore> {
        let mut owners = self.owners.lock();
        if owners.len() > MANY {
            owners.retain(|_, part| Arc::strong_count(part) > 1);
        }
        let part = owners.entry(owner.clone());
        Arc::clone(part.or_insert_with(|| Arc::new(Semaphore::new(self.part as usize))))
    }
}

/// Bytes in the unit in which room is counted.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn owner(slug: &str) -> Owner {
        Some(TenantId::new(slug).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn the_large_of_one_tenant_leave_room_for_the_small_of_others() {
        let room = Arc::new(Room::new(8 * MIB));
        let first = room.try_take(&owner("noisy"), 4 * MIB).unwrap();
        assert!(first.fits(4 * MIB) && !first.fits(5 * MIB));
        assert!(room.try_take(&owner("noisy"), 4 * MIB).is_none(), "one after the other");
        assert!(room.try_take(&owner("noisy"), MIB).is_none(), "its part is used up");
        // However many wait for their turn, others' that are not as large don't wait behind them.
        let queued: Vec<_> = ["noisy", "noisy", "loud", "loud"]
            .map(|slug| {
                let room = Arc::clone(&room);
                tokio::spawn(async move { room.take(&owner(slug), 4 * MIB, Duration::from_secs(9)).await })
            })
            .into();
        tokio::task::yield_now().await;
        let second = room.try_take(&owner("quiet"), 2 * MIB).unwrap();
        let third = room.try_take(&None, 2 * MIB).unwrap();
        assert_eq!(room.taken(), 8 * MIB);
        for waited in queued {
            assert!(matches!(waited.await.unwrap(), Err(CacheError::NoRoom(_))), "not for ever");
        }
        drop((first, second, third));
        assert_eq!(room.taken(), 0);
        // What is larger than all of the room has all of it.
        let all = room.take(&owner("noisy"), 100 * MIB, Duration::from_secs(9)).await.unwrap();
        assert!(all.fits(100 * MIB));
        assert_eq!(room.taken(), 8 * MIB);
    }
}
