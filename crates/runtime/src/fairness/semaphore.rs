//! Semaphore with a per-owner limit, so that one owner cannot take every permit.

use futures::FutureExt;
use parking_lot::Mutex;
use prometheus::IntCounter;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Semaphore with a per-owner limit. Cheap to clone.
#[derive(Debug)]
pub struct FairSemaphore<K>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    name: &'static str,
    total: u32,
    share: u32,
    all: Arc<Semaphore>,
    /// Admits one request at a time beyond its owner's share, so that others find permits.
    oversize: Arc<Semaphore>,
    /// The shares of owners that hold or wait for permits. Other owners take no memory.
    shares: Mutex<HashMap<K, Weak<Semaphore>>>,
    waiting: AtomicU64,
    refused: Option<IntCounter>,
}

/// The reason why no permit is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The owner has used its share.
    #[error("Too many concurrent {name}: one tenant may have {share}")]
    Share {
        /// The purpose of the permits.
        name: &'static str,
        /// The maximum number of permits per owner.
        share: u32,
    },
    /// All owners together have taken all permits.
    #[error("Too many concurrent {name} of all tenants")]
    All {
        /// The purpose of the permits.
        name: &'static str,
    },
}

impl<K> Clone for FairSemaphore<K> {
    fn clone(&self) -> FairSemaphore<K> {
        FairSemaphore(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> FairSemaphore<K> {
    /// Creates a semaphore of `total` permits for `name`, with at most `share` per owner. Both are at least one.
    #[must_use]
    pub fn new(name: &'static str, total: u32, share: u32) -> FairSemaphore<K> {
        FairSemaphore::build(name, total, share, None)
    }

    /// Works as [`FairSemaphore::new`], and counts the refusals of an owner's share in `refused`.
    #[must_use]
    pub fn with_refusal_counter(
        name: &'static str,
        total: u32,
        share: u32,
        refused: IntCounter,
    ) -> FairSemaphore<K> {
        FairSemaphore::build(name, total, share, Some(refused))
    }

    fn build(name: &'static str, total: u32, share: u32, refused: Option<IntCounter>) -> FairSemaphore<K> {
        let total = total.max(1);
        let share = share.clamp(1, total);
        let (all, oversize) = (new_semaphore(total), new_semaphore(1));
        let (shares, waiting) = (Mutex::default(), AtomicU64::new(0));
        FairSemaphore(Arc::new(Inner { name, total, share, all, oversize, shares, waiting, refused }))
    }

    /// Takes permits for an owner without waiting.
    ///
    /// # Errors
    /// Returns [`Exhausted`] if there are not enough permits now.
    pub fn try_acquire(&self, owner: &K, permits: u32) -> Result<FairPermit<K>, Exhausted> {
        let own = self.try_share(&self.share_for(owner), permits)?;
        let all = self.try_all(permits)?;
        Ok(FairPermit { semaphore: self.clone(), all, own: Some(own), _oversize: None })
    }

    /// Takes permits before their owner is known. [`FairPermit::assign_owner`] sets the owner.
    ///
    /// # Errors
    /// Returns [`Exhausted::All`] if there are not enough permits now.
    pub fn try_acquire_unassigned(&self, permits: u32) -> Result<FairPermit<K>, Exhausted> {
        Ok(FairPermit { semaphore: self.clone(), all: self.try_all(permits)?, own: None, _oversize: None })
    }

    /// Waits for permits: first for the owner's share, then for permits of all. A request above the owner's share takes
    /// the rest from the remaining permits, and a request above the total takes all.
    pub async fn acquire(&self, owner: &K, permits: u32) -> FairPermit<K> {
        let (permits, share) = (permits.min(self.0.total), self.share_for(owner));
        let own = permits.min(self.0.share);
        let own = match Arc::clone(&share).try_acquire_many_owned(own) {
            Ok(own) => own,
            Err(_) => {
                let _waiting = Waiting::start_waiting(&self.0.waiting);
                expect_permit(share.acquire_many_owned(own).await)
            }
        };
        let oversize = match permits > self.0.share {
            true => Some(expect_permit(Arc::clone(&self.0.oversize).acquire_owned().await)),
            false => None,
        };
        let all = expect_permit(Arc::clone(&self.0.all).acquire_many_owned(permits).await);
        FairPermit { semaphore: self.clone(), all, own: Some(own), _oversize: oversize }
    }

    /// Works as [`FairSemaphore::acquire`], but returns `None` instead of waiting.
    #[must_use]
    pub fn acquire_now(&self, owner: &K, permits: u32) -> Option<FairPermit<K>> {
        self.acquire(owner, permits).now_or_never()
    }

    fn share_for(&self, owner: &K) -> Arc<Semaphore> {
        let mut shares = self.0.shares.lock();
        if let Some(share) = shares.get(owner).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = new_semaphore(self.0.share);
        shares.insert(owner.clone(), Arc::downgrade(&share));
        share
    }
}

impl<K> FairSemaphore<K> {
    fn try_share(&self, share: &Arc<Semaphore>, permits: u32) -> Result<OwnedSemaphorePermit, Exhausted> {
        Arc::clone(share).try_acquire_many_owned(permits).map_err(|_| {
            self.0.refused.iter().for_each(IntCounter::inc);
            Exhausted::Share { name: self.0.name, share: self.0.share }
        })
    }

    fn try_all(&self, permits: u32) -> Result<OwnedSemaphorePermit, Exhausted> {
        let taken = Arc::clone(&self.0.all).try_acquire_many_owned(permits);
        taken.map_err(|_| Exhausted::All { name: self.0.name })
    }

    /// Returns the number of taken permits.
    #[must_use]
    pub fn held_permits(&self) -> u64 {
        u64::from(self.0.total).saturating_sub(self.0.all.available_permits() as u64)
    }

    /// Returns the number of callers that wait for permits of their own share.
    #[must_use]
    pub fn waiting_callers(&self) -> u64 {
        self.0.waiting.load(Ordering::Relaxed)
    }
}

#[expect(clippy::expect_used, reason = "no semaphore is ever closed")]
fn expect_permit(permit: Result<OwnedSemaphorePermit, AcquireError>) -> OwnedSemaphorePermit {
    permit.expect("the semaphore is open")
}

fn new_semaphore(permits: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(permits).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)))
}

/// Counts a waiting caller, even if it gives up.
struct Waiting<'a>(&'a AtomicU64);

impl Waiting<'_> {
    fn start_waiting(waiting: &AtomicU64) -> Waiting<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Permits that are returned on drop.
#[derive(Debug)]
pub struct FairPermit<K> {
    semaphore: FairSemaphore<K>,
    all: OwnedSemaphorePermit,
    /// The permits of the owner's share, or `None` before the owner is known.
    own: Option<OwnedSemaphorePermit>,
    _oversize: Option<OwnedSemaphorePermit>,
}

impl<K: Clone + Eq + Hash> FairPermit<K> {
    /// Charges the permits to this owner, after it became known.
    ///
    /// # Errors
    /// Returns [`Exhausted::Share`] if the owner has used its share.
    pub fn assign_owner(&mut self, owner: &K) -> Result<(), Exhausted> {
        let permits = u32::try_from(self.all.num_permits()).unwrap_or(u32::MAX);
        self.own = Some(self.semaphore.try_share(&self.semaphore.share_for(owner), permits)?);
        Ok(())
    }
}

impl<K> FairPermit<K> {
    /// Takes more permits, up to the owner's share. So a request above the share is admitted as soon as
    /// the owner holds nothing else.
    fn grow_permits(&mut self, permits: u32) -> Result<(), Exhausted> {
        let Some(held) = &mut self.own else { return Ok(()) };
        let left =
            self.semaphore.0.share.saturating_sub(u32::try_from(held.num_permits()).unwrap_or(u32::MAX));
        let permits = permits.min(left);
        let own = self.semaphore.try_share(held.semaphore(), permits)?;
        self.all.merge(self.semaphore.try_all(permits)?);
        held.merge(own);
        Ok(())
    }
}

/// Reserved bytes of an owner, counted in whole KiB and returned on drop.
#[derive(Debug)]
pub struct ByteReservation<K> {
    permit: FairPermit<K>,
    /// The permits of a smaller share, taken first.
    inner: Option<FairPermit<K>>,
    bytes: u64,
}

impl<K: Clone + Eq + Hash> ByteReservation<K> {
    /// Reserves bytes of a semaphore that counts KiB.
    ///
    /// # Errors
    /// Returns [`Exhausted`] if there are not enough bytes now.
    pub fn new(semaphore: &FairSemaphore<K>, owner: &K, bytes: u64) -> Result<ByteReservation<K>, Exhausted> {
        let mut reservation =
            ByteReservation { permit: semaphore.try_acquire(owner, 0)?, inner: None, bytes: 0 };
        reservation.reserve_more(bytes)?;
        Ok(reservation)
    }

    /// Makes a reservation without bytes of two semaphores that count KiB: each byte takes from both. So what is reserved
    /// with `inner` leaves the rest of the owner's share of `semaphore` to others.
    ///
    /// # Errors
    /// Returns the errors of [`ByteReservation::new`].
    pub fn within(
        inner: &FairSemaphore<K>,
        semaphore: &FairSemaphore<K>,
        owner: &K,
    ) -> Result<ByteReservation<K>, Exhausted> {
        let inner = Some(inner.try_acquire(owner, 0)?);
        Ok(ByteReservation { permit: semaphore.try_acquire(owner, 0)?, inner, bytes: 0 })
    }
}

impl<K> ByteReservation<K> {
    /// Returns the reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more bytes.
    ///
    /// # Errors
    /// Returns the errors of [`ByteReservation::new`].
    pub fn reserve_more(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let all = self.bytes.saturating_add(bytes);
        let kib = all.div_ceil(1_024) - self.bytes.div_ceil(1_024);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        if let Some(inner) = &mut self.inner {
            inner.grow_permits(kib)?;
        }
        self.permit.grow_permits(kib)?;
        self.bytes = all;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    type Owner = &'static str;

    fn share<T>(taken: Result<T, Exhausted>) -> bool {
        matches!(taken.err(), Some(Exhausted::Share { .. }))
    }

    fn pending<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    /// Proves: fairness
    #[test]
    fn an_owner_has_its_share_and_leaves_the_rest() {
        let refused = IntCounter::new("refused", "Refused.").unwrap();
        let semaphore: FairSemaphore<Owner> =
            FairSemaphore::with_refusal_counter("uploads", 4, 2, refused.clone());
        let held = [(); 2].map(|()| semaphore.try_acquire(&"acme", 1).unwrap());
        assert!(share(semaphore.try_acquire(&"acme", 1)) && refused.get() == 1);
        let others = ["b", "c"].map(|owner| semaphore.try_acquire(&owner, 1).unwrap());
        assert_eq!(semaphore.held_permits(), 4);
        assert_eq!(semaphore.try_acquire(&"late", 1).unwrap_err(), Exhausted::All { name: "uploads" });
        drop(others);
        // What was refused for want of permits took none of the owner's own.
        let late = semaphore.try_acquire(&"late", 2).unwrap();
        drop((held, late));
        assert_eq!(semaphore.held_permits(), 0);
    }

    #[tokio::test]
    async fn an_owner_that_waits_for_its_own_share_holds_up_no_other() {
        let semaphore: FairSemaphore<Owner> = FairSemaphore::new("downloads", 4, 2);
        let (first, _second) = (semaphore.acquire(&"acme", 1).await, semaphore.acquire(&"acme", 1).await);
        let mut third = Box::pin(semaphore.acquire(&"acme", 1));
        assert!(pending(third.as_mut()) && semaphore.waiting_callers() == 1);
        assert!(semaphore.acquire_now(&"acme", 1).is_none());
        drop(semaphore.acquire(&"umbrella", 1).await);
        drop(first);
        drop(third.await);
        assert_eq!(semaphore.waiting_callers(), 0);
        // What is more than all waits for all of it.
        let mut all = Box::pin(semaphore.acquire(&"umbrella", 100));
        assert!(pending(all.as_mut()));
        drop(_second);
        let all = all.await;
        assert_eq!(semaphore.held_permits(), 4);
        drop(all);
    }

    #[test]
    fn permits_are_assigned_once_their_owner_is_known() {
        let semaphore: FairSemaphore<Owner> = FairSemaphore::new("requests", 3, 1);
        let taken = || semaphore.try_acquire_unassigned(1);
        let (mut first, mut second) = (taken().unwrap(), taken().unwrap());
        first.assign_owner(&"acme").unwrap();
        assert!(share(second.assign_owner(&"acme")));
        second.assign_owner(&"umbrella").unwrap();
        drop(first);
        assert_eq!(semaphore.held_permits(), 1);
    }

    #[test]
    fn bytes_are_counted_in_whole_kib_and_what_is_larger_than_a_share_has_all_of_it() {
        let semaphore: FairSemaphore<Owner> = FairSemaphore::new("bytes", 8, 4);
        let mut large = ByteReservation::new(&semaphore, &"acme", 1).unwrap();
        large.reserve_more(1_023).unwrap();
        assert_eq!((semaphore.held_permits(), large.bytes()), (1, 1_024));
        let small = ByteReservation::new(&semaphore, &"acme", 1).unwrap();
        assert!(share(large.reserve_more(8 << 10)));
        drop(small);
        large.reserve_more(8 << 10).unwrap();
        assert_eq!(semaphore.held_permits(), 4);
        assert!(share(ByteReservation::new(&semaphore, &"acme", 1)));
    }

    #[test]
    fn an_owner_that_holds_nothing_is_forgotten() {
        let semaphore: FairSemaphore<u32> = FairSemaphore::new("requests", 8, 1);
        let _held = semaphore.try_acquire(&1_000, 1).unwrap();
        for owner in 0..100 {
            drop(semaphore.try_acquire(&owner, 1).unwrap());
        }
        assert!(semaphore.0.shares.lock().len() <= 2);
    }
}
