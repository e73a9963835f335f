//! What requests hold while they are in work, and how much of it one tenant may hold.
//!
//! Each resource has a bound for all requests together, and each tenant a share of it: whoever has
//! used up its own is told so, and the others find the rest. A tenant that holds nothing costs nothing.

use crate::config::Limits;
use crate::problem::{Kind, Problem};
use prometheus::IntCounterVec;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use unslide_model::TenantId;

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Requests in work.
    Requests,
    /// Requests that wait by wish of their client.
    Waits,
    /// Symbol uploads that are being received.
    Uploads,
    /// KiB of bodies in memory.
    Bodies,
    /// KiB of answers in memory.
    Answers,
    /// Downloads of symcaches.
    Downloads,
    /// Connections to the database.
    Connections,
    /// Readers of dead letters.
    Letters,
}

const RESOURCES: usize = 8;

impl Resource {
    fn index(self) -> usize {
        self as usize
    }

    /// What it is called in refusals and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::Requests => "requests",
            Resource::Waits => "waits",
            Resource::Uploads => "uploads",
            Resource::Bodies => "bodies",
            Resource::Answers => "answers",
            Resource::Downloads => "downloads",
            Resource::Connections => "connections",
            Resource::Letters => "letters",
        }
    }

    /// Seconds after which a client may come again.
    fn again(self) -> u32 {
        match self {
            Resource::Waits | Resource::Uploads => 5,
            _ => 1,
        }
    }
}

/// How much there is for all, and for one tenant.
#[derive(Clone, Copy, Debug)]
struct Size {
    all: u32,
    own: u32,
}

/// The permits. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Permits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sizes: [Size; RESOURCES],
    all: [Arc<Semaphore>; RESOURCES],
    /// The shares of tenants that hold or ask for something.
    tenants: Mutex<HashMap<TenantId, Weak<Share>>>,
    refused: IntCounterVec,
    /// How many wait for their tenant's turn.
    waiting: [AtomicU64; RESOURCES],
}

/// One tenant's share. It goes when nobody holds or asks for any of it.
#[derive(Debug)]
struct Share {
    tenant: TenantId,
    shared: Arc<Shared>,
    own: [Arc<Semaphore>; RESOURCES],
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut tenants = self.shared.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // A new one may have taken its place.
        if tenants.get(&self.tenant).is_some_and(|share| share.strong_count() == 0) {
            tenants.remove(&self.tenant);
        }
    }
}

impl Shared {
    fn size(&self, resource: Resource) -> Size {
        self.sizes[resource.index()]
    }

    fn take_all(&self, resource: Resource, amount: u32) -> Result<OwnedSemaphorePermit, Problem> {
        self.all[resource.index()].clone().try_acquire_many_owned(amount).map_err(|_| {
            let detail = match resource {
                Resource::Requests => "too many requests are in work",
                Resource::Waits => "too many requests wait",
                Resource::Uploads => "too many uploads are being received",
                Resource::Bodies => "too many reports are in memory",
                Resource::Answers => "too many large answers are read",
                Resource::Downloads => "too many symbols are being fetched",
                Resource::Connections => "the database is asked too much",
                Resource::Letters => "too many dead letters are read",
            };
            Problem::new(Kind::Overloaded, detail).retry_after(resource.again())
        })
    }
}

impl Share {
    fn take(&self, resource: Resource, amount: u32) -> Result<OwnedSemaphorePermit, Problem> {
        self.own[resource.index()].clone().try_acquire_many_owned(amount).map_err(|_| {
            let name = resource.name();
            self.shared.refused.with_label_values(&[name]).inc();
            let unit = if matches!(resource, Resource::Bodies | Resource::Answers) { " KiB" } else { "" };
            let detail = format!("{name}: a tenant has {}{unit} at once", self.shared.size(resource).own);
            Problem::new(Kind::TenantBusy, detail).retry_after(resource.again())
        })
    }
}

impl Permits {
    /// Permits within `limits`, with so many downloads of symcaches and connections to the database. What
    /// a tenant's share refuses is counted in `refused`.
    #[must_use]
    pub fn new(limits: &Limits, downloads: usize, connections: u32, refused: IntCounterVec) -> Permits {
        let share = |all: u64, least: u64| {
            let all = all.clamp(1, u64::from(u32::MAX).min(Semaphore::MAX_PERMITS as u64));
            let own = (all * u64::from(limits.tenant_share)).div_ceil(100).max(least).min(all);
            let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            Size { all: small(all), own: small(own) }
        };
        let body = limits.ingest_bytes.max(limits.ingest_unpacked_bytes).div_ceil(1_024);
        let sizes = [
            share(limits.requests as u64, 1),
            share(limits.waits as u64, 1),
            share(limits.uploads as u64, 1),
            // One body of the largest size always has room.
            share(body.saturating_mul(limits.bodies as u64), body.max(1)),
            share(limits.answer_bytes >> 10, 1),
            share(downloads as u64, 1),
            share(connections.into(), 1),
            share(limits.letters as u64, 1),
        ];
        let all = sizes.map(|size| semaphore(size.all));
        Permits(Arc::new(Shared {
            sizes,
            all,
            tenants: Mutex::default(),
            refused,
            waiting: Default::default(),
        }))
    }

    /// How much of a resource is held.
    #[must_use]
    pub fn held(&self, resource: Resource) -> u64 {
        let free = self.0.all[resource.index()].available_permits() as u64;
        u64::from(self.0.size(resource).all).saturating_sub(free)
    }

    /// How many requests wait for their tenant's turn.
    #[must_use]
    pub fn waiting(&self, resource: Resource) -> u64 {
        self.0.waiting[resource.index()].load(Ordering::Relaxed)
    }

    /// Takes of a resource for a tenant.
    ///
    /// # Errors
    /// [`Kind::TenantBusy`] where the tenant's share is used up, [`Kind::Overloaded`] where there is no more
    /// for anyone.
    pub fn take(&self, tenant: &TenantId, resource: Resource, amount: u32) -> Result<Permit, Problem> {
        let share = self.share(tenant);
        let own = share.take(resource, amount)?;
        let all = self.0.take_all(resource, amount)?;
        Ok(Permit { resource, all, own, share })
    }

    /// Waits for a tenant's turn at a resource that its holders themselves wait for elsewhere.
    ///
    /// # Errors
    /// Never, as no semaphore is closed.
    pub async fn turn(&self, tenant: &TenantId, resource: Resource) -> Result<Turn, Problem> {
        let share = self.share(tenant);
        let own = share.own[resource.index()].clone();
        let own = match own.clone().try_acquire_owned() {
            Ok(own) => own,
            Err(_) => {
                let _waiting = Waiting::count(&self.0.waiting[resource.index()]);
                own.acquire_owned().await.map_err(Problem::internal)?
            }
        };
        Ok(Turn { _own: own, _share: share })
    }

    /// A slot among the requests in work, before it is known whose request it is.
    ///
    /// # Errors
    /// [`Kind::Overloaded`].
    pub fn slot(&self) -> Result<Slot, Problem> {
        let all = self.0.take_all(Resource::Requests, 1)?;
        Ok(Slot(Arc::new(Mutex::new(Holding { tenant: None, own: None, all: Some(all) }))))
    }

    fn share(&self, tenant: &TenantId) -> Arc<Share> {
        let mut tenants = self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = tenants.get(tenant).and_then(Weak::upgrade) {
            return share;
        }
        let own = self.0.sizes.map(|size| semaphore(size.own));
        let share = Arc::new(Share { tenant: tenant.clone(), shared: self.0.clone(), own });
        tenants.insert(tenant.clone(), Arc::downgrade(&share));
        share
    }
}

fn semaphore(size: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(size).unwrap_or(Semaphore::MAX_PERMITS)))
}

/// So much of a resource, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    resource: Resource,
    all: OwnedSemaphorePermit,
    own: OwnedSemaphorePermit,
    share: Arc<Share>,
}

impl Permit {
    /// Takes more; never more than all of the tenant's share, so that what is larger than that has its
    /// turn once the tenant holds nothing else.
    ///
    /// # Errors
    /// As [`Permits::take`].
    pub fn grow(&mut self, amount: u32) -> Result<(), Problem> {
        let held = u32::try_from(self.own.num_permits()).unwrap_or(u32::MAX);
        let amount = amount.min(self.share.shared.size(self.resource).own.saturating_sub(held));
        let own = self.share.take(self.resource, amount)?;
        self.all.merge(self.share.shared.take_all(self.resource, amount)?);
        self.own.merge(own);
        Ok(())
    }
}

/// Somebody who waits, also where that is given up.
struct Waiting<'a>(&'a AtomicU64);

impl Waiting<'_> {
    fn count(number: &AtomicU64) -> Waiting<'_> {
        number.fetch_add(1, Ordering::Relaxed);
        Waiting(number)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A tenant's turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _own: OwnedSemaphorePermit,
    _share: Arc<Share>,
}

/// A request's slot among those in work. Its clones are the same slot.
#[derive(Clone, Debug)]
pub struct Slot(Arc<Mutex<Holding>>);

#[derive(Debug)]
struct Holding {
    tenant: Option<TenantId>,
    own: Option<(OwnedSemaphorePermit, Arc<Share>)>,
    all: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Counts the request as one of this tenant's.
    ///
    /// # Errors
    /// [`Kind::TenantBusy`].
    pub fn assign(&self, permits: &Permits, tenant: &TenantId) -> Result<(), Problem> {
        let share = permits.share(tenant);
        let own = share.take(Resource::Requests, 1)?;
        let mut holding = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (holding.tenant, holding.own) = (Some(tenant.clone()), Some((own, share)));
        Ok(())
    }

    /// Whose request it is, once that is known.
    #[must_use]
    pub fn tenant(&self) -> Option<TenantId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).tenant.clone()
    }

    /// Gives the slot back: the request has ended, or does nothing but wait.
    pub fn release(&self) {
        let mut holding = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (holding.own, holding.all) = (None, None);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use prometheus::Opts;

    /// Permits within these limits.
    pub fn permits(limits: &Limits) -> Permits {
        let refused = IntCounterVec::new(Opts::new("refused", "Refused."), &["limit"]).unwrap();
        Permits::new(limits, 8, 8, refused)
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn kind<T>(taken: Result<T, Problem>) -> Option<Kind> {
        taken.err().map(|problem| problem.kind())
    }

    #[test]
    fn a_tenant_has_its_share_and_leaves_the_rest() {
        let permits = permits(&Limits { uploads: 8, ..Limits::default() });
        let take = |name: &str| permits.take(&tenant(name), Resource::Uploads, 1);
        let held: Vec<_> = (0..2).map(|_| take("acme").unwrap()).collect();
        assert_eq!(kind(take("acme")), Some(Kind::TenantBusy));
        let others: Vec<_> = (0..6).map(|n| take(&format!("other-{n}")).unwrap()).collect();
        assert_eq!(permits.held(Resource::Uploads), 8);
        assert_eq!(kind(take("late")), Some(Kind::Overloaded));
        // What was refused for want of a place took none of the tenant's own.
        drop(others);
        let late: Vec<_> = (0..2).map(|_| take("late").unwrap()).collect();
        drop((held, late));
        assert_eq!(permits.held(Resource::Uploads), 0);
        take("acme").unwrap();
    }

    #[test]
    fn a_share_is_never_nothing() {
        let permits = permits(&Limits { uploads: 1, bodies: 1, tenant_share: 1, ..Limits::default() });
        let whole = u32::try_from(Limits::default().ingest_unpacked_bytes >> 10).unwrap();
        permits.take(&tenant("acme"), Resource::Uploads, 1).unwrap();
        permits.take(&tenant("acme"), Resource::Bodies, whole).unwrap();
    }

    /// Or it could never be read.
    #[test]
    fn what_is_larger_than_a_share_waits_for_all_of_it() {
        let permits = permits(&Limits { bodies: 2, ..Limits::default() });
        let most = permits.0.size(Resource::Bodies).own;
        let take = || permits.take(&tenant("acme"), Resource::Bodies, 1);
        let (mut large, small) = (take().unwrap(), take().unwrap());
        assert_eq!(kind(large.grow(most * 2)), Some(Kind::TenantBusy));
        drop(small);
        large.grow(most * 2).unwrap();
        assert_eq!(permits.held(Resource::Bodies), u64::from(most));
        assert_eq!(kind(take()), Some(Kind::TenantBusy));
    }

    #[tokio::test]
    async fn a_turn_is_waited_for_within_the_tenant_alone() {
        let permits = permits(&Limits::default());
        let turn = async |name: &str| permits.turn(&tenant(name), Resource::Downloads).await;
        let (first, _second) = (turn("acme").await.unwrap(), turn("acme").await.unwrap());
        let mut third = Box::pin(turn("acme"));
        assert!(futures::poll!(third.as_mut()).is_pending());
        assert_eq!(permits.waiting(Resource::Downloads), 1);
        turn("umbrella").await.unwrap();
        drop(first);
        third.await.unwrap();
        drop(Box::pin(turn("acme")));
        assert_eq!(permits.waiting(Resource::Downloads), 0);
    }

    #[test]
    fn a_slot_counts_for_its_tenant_until_it_is_released() {
        let permits = permits(&Limits { requests: 4, ..Limits::default() });
        let assigned = |name| {
            let slot = permits.slot()?;
            slot.assign(&permits, &tenant(name)).map(|()| slot)
        };
        let first = assigned("acme").unwrap();
        assert_eq!(kind(assigned("acme")), Some(Kind::TenantBusy));
        assigned("umbrella").unwrap();
        assert_eq!(permits.held(Resource::Requests), 1);
        first.release();
        assert_eq!((permits.held(Resource::Requests), first.tenant()), (0, Some(tenant("acme"))));
        assigned("acme").unwrap();
    }

    /// As many tenants as come by, none of them at once.
    #[test]
    fn a_tenant_that_holds_nothing_is_forgotten() {
        let permits = permits(&Limits::default());
        let known = || permits.0.tenants.lock().unwrap().len();
        let held = permits.take(&tenant("acme"), Resource::Waits, 1).unwrap();
        for n in 0..100 {
            drop(permits.take(&tenant(&format!("t{n}")), Resource::Uploads, 1).unwrap());
        }
        let again = permits.take(&tenant("acme"), Resource::Uploads, 1).unwrap();
        drop(held);
        assert_eq!(known(), 1, "it still holds something");
        drop(again);
        assert_eq!(known(), 0);
    }
}
