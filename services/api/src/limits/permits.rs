//! Permits that requests hold while they run, with a limit for each tenant.
//!
//! Some requests, bodies and database connections are reserved for operators' operations, so that operators
//! can suspend tenants that use up all the rest.

use crate::config::RequestLimits;
use crate::http::problem::{Kind, Problem};
use parking_lot::{Mutex, MutexGuard};
use prometheus::IntCounterVec;
use std::sync::Arc;
use unslide_model::{Stats, TenantId};
use unslide_runtime::fairness::{ByteReservation, Exhausted, FairPermit, FairSemaphore};

/// A semaphore that tenants share.
pub type TenantSemaphore = FairSemaphore<TenantId>;
/// A permit of one tenant.
pub type Permit = FairPermit<TenantId>;
/// A byte reservation of one tenant.
pub type Reservation = ByteReservation<TenantId>;

/// Largest size of a JSON request body, in bytes.
pub const JSON_BYTES: u64 = 1 << 20;
/// Requests reserved for operators, beyond `requests`.
const OPERATOR_REQUESTS: u64 = 16;
/// JSON bodies of the largest size that operators may send at the same time.
const OPERATOR_BODIES: u64 = 4;
/// Maximum number of streams, of all tenants and of one.
const STREAMS_LIMIT: u32 = 256;
const STREAMS_OF_TENANT: u32 = 16;
/// Seconds after which a client may retry a request that found no permit.
const RETRY_AFTER: u32 = 1;

impl From<Exhausted> for Problem {
    fn from(exhausted: Exhausted) -> Problem {
        let kind = match exhausted {
            Exhausted::Share { .. } => Kind::TenantBusy,
            Exhausted::All { .. } => Kind::Overloaded,
        };
        Problem::new(kind, exhausted.to_string()).retry_after(RETRY_AFTER)
    }
}

/// The permits of one process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Permits {
    pub requests: TenantSemaphore,
    /// Requests of operators' operations when all other permits are taken.
    pub operator_requests: TenantSemaphore,
    /// Requests that wait because their client asked for it.
    pub waits: TenantSemaphore,
    /// Streams: responses that go on until their client leaves.
    pub streams: TenantSemaphore,
    /// Symbol uploads that are being received.
    pub uploads: TenantSemaphore,
    /// Bodies in memory, in KiB.
    pub bodies: TenantSemaphore,
    /// Bodies of operators' operations, in KiB.
    pub operator_bodies: TenantSemaphore,
    /// Responses in memory, in KiB.
    pub answers: TenantSemaphore,
    pub downloads: TenantSemaphore,
    pub connections: TenantSemaphore,
    pub dead_letters: TenantSemaphore,
}

impl Permits {
    /// Gauges of the permits, for metrics.
    pub const PERMIT_STATS: [Stats<Permits>; 3] = [
        Stats {
            name: "unslide_api_in_flight",
            help: "Requests, symbol uploads, readers of dead letters and streams in flight, and requests that wait.",
            label: "kind",
            read: |permits| {
                vec![
                    ("requests", permits.requests.held_permits() + permits.operator_requests.held_permits()),
                    ("waits", permits.waits.held_permits()),
                    ("uploads", permits.uploads.held_permits()),
                    ("dead_letters", permits.dead_letters.held_permits()),
                    ("streams", permits.streams.held_permits()),
                ]
            },
        },
        Stats {
            name: "unslide_api_waiting",
            help: "Requests that wait for a connection, a download or a reader that other requests of their tenant hold.",
            label: "kind",
            read: |permits| {
                vec![
                    ("downloads", permits.downloads.waiting_callers()),
                    ("connections", permits.connections.waiting_callers()),
                    ("dead_letters", permits.dead_letters.waiting_callers()),
                ]
            },
        },
        Stats {
            name: "unslide_api_body_bytes",
            help: "Bytes of bodies in memory, announced, received or unpacked, and of answers.",
            label: "kind",
            read: |permits| {
                let bodies = permits.bodies.held_permits() + permits.operator_bodies.held_permits();
                vec![("reports", bodies << 10), ("answers", permits.answers.held_permits() << 10)]
            },
        },
    ];

    /// Creates permits within `limits`, with this many symcache downloads and database connections. `refused`
    /// counts the requests that a limit refuses.
    #[must_use]
    pub fn new(
        limits: &RequestLimits,
        downloads: usize,
        connections: u32,
        refused: &IntCounterVec,
    ) -> Permits {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let percent = |all: u64| all.saturating_mul(limits.tenant_share.into()).div_ceil(100);
        let shared = |name, all: u64| TenantSemaphore::new(name, small(all), small(percent(all)));
        let counted = |name, label, all: u64, least: u64| {
            let refused = refused.with_label_values(&[label]);
            TenantSemaphore::with_refusal_counter(name, small(all), small(percent(all).max(least)), refused)
        };
        let reserved = |name, all: u64| TenantSemaphore::new(name, small(all), small(all));
        let body = limits.ingest_bytes.max(limits.ingest_unpacked_bytes).div_ceil(1_024);
        let bodies = body.saturating_mul(limits.bodies as u64);
        let operator_bodies = OPERATOR_BODIES.saturating_mul(JSON_BYTES.div_ceil(1_024));
        // The connections that tenants cannot have are for operators and for key look-ups.
        let tenant_connections = connections - (connections / 4 + 1).min(connections.saturating_sub(1));
        Permits {
            requests: counted("requests", "requests", limits.requests as u64, 1),
            operator_requests: reserved("requests", OPERATOR_REQUESTS),
            waits: counted("waiting requests", "waits", limits.waits as u64, 1),
            streams: TenantSemaphore::new("streams", STREAMS_LIMIT, STREAMS_OF_TENANT),
            uploads: counted("uploads", "uploads", limits.uploads as u64, 1),
            // One body of the largest size always fits.
            bodies: counted("request bodies (KiB)", "bodies", bodies, body),
            operator_bodies: reserved("request bodies (KiB)", operator_bodies),
            answers: counted("answers (KiB)", "answers", limits.answer_bytes >> 10, 1),
            downloads: shared("symbol downloads", downloads as u64),
            connections: TenantSemaphore::new(
                "database connections",
                tenant_connections,
                small(percent(connections.into())),
            ),
            dead_letters: shared("dead-letter readers", limits.letters as u64),
        }
    }

    /// Takes a slot among the running requests, before the request's tenant is known. If all are taken,
    /// returns a slot that only an operator's operation can keep.
    ///
    /// # Errors
    /// [`Exhausted::All`].
    pub fn take_slot(&self) -> Result<RequestSlot, Exhausted> {
        Ok(RequestSlot(Arc::new(Mutex::new(self.take_unassigned()?))))
    }

    fn take_unassigned(&self) -> Result<SlotState, Exhausted> {
        let (permit, reserved) = match self.requests.try_acquire_unassigned(1) {
            Ok(permit) => (permit, false),
            Err(_) => (self.operator_requests.try_acquire_unassigned(1)?, true),
        };
        Ok(SlotState { caller: Caller::Unknown, permit: Some(permit), reserved })
    }
}

/// A request's slot among the running requests. Its clones share the slot.
#[derive(Clone, Debug)]
pub struct RequestSlot(Arc<Mutex<SlotState>>);

#[derive(Debug)]
struct SlotState {
    caller: Caller,
    permit: Option<Permit>,
    /// The slot is reserved for operators.
    reserved: bool,
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The key is not checked yet.
    Unknown,
    Tenant(TenantId),
    /// An operator, with a key of this tenant, for an operation that only operators may use.
    Operator(TenantId),
}

impl Caller {
    /// Returns the tenant of the key, or None if it is not known yet.
    #[must_use]
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Caller::Unknown => None,
            Caller::Tenant(tenant) | Caller::Operator(tenant) => Some(tenant),
        }
    }
}

impl RequestSlot {
    /// Counts the request as this caller's. An operator's request takes nothing from its tenant's share.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn assign_caller(&self, permits: &Permits, caller: Caller) -> Result<(), Exhausted> {
        let mut slot = self.lock_state();
        if let Caller::Tenant(tenant) = &caller {
            if slot.reserved {
                // Takes a regular permit if one has been released since.
                slot.permit = Some(permits.requests.try_acquire(tenant, 1)?);
                slot.reserved = false;
            } else if let Some(permit) = &mut slot.permit {
                permit.assign_owner(tenant)?;
            }
        }
        slot.caller = caller;
        Ok(())
    }

    /// Returns the caller of the request.
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.lock_state().caller.clone()
    }

    /// Releases the slot, because the request has ended or only waits.
    pub fn release(&self) {
        self.lock_state().permit = None;
    }

    /// Takes a slot again for a request that was released before its key was known.
    ///
    /// # Errors
    /// [`Exhausted::All`].
    pub fn resume(&self, permits: &Permits) -> Result<(), Exhausted> {
        *self.lock_state() = permits.take_unassigned()?;
        Ok(())
    }

    fn lock_state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use prometheus::Opts;

    pub fn permits(limits: &RequestLimits) -> Permits {
        Permits::new(limits, 8, 8, &IntCounterVec::new(Opts::new("refused", "Refused."), &["limit"]).unwrap())
    }

    /// A reservation without bytes that can grow to this many where another holds one KiB.
    pub fn reservation(bytes: u64) -> (Reservation, Reservation) {
        let kib = u32::try_from(bytes >> 10).unwrap() + 1;
        let (semaphore, tenant) = (TenantSemaphore::new("bytes", kib, kib), tenant("acme"));
        let reserve = |bytes| Reservation::new(&semaphore, &tenant, bytes).unwrap();
        (reserve(0), reserve(1))
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn kind<T>(taken: Result<T, Exhausted>) -> Option<Kind> {
        taken.err().map(|exhausted| Problem::from(exhausted).kind())
    }

    #[test]
    fn a_share_holds_one_body_of_the_largest_size_at_least() {
        let permits =
            permits(&RequestLimits { uploads: 1, bodies: 1, tenant_share: 1, ..RequestLimits::default() });
        let whole = u32::try_from(RequestLimits::default().ingest_unpacked_bytes >> 10).unwrap();
        permits.uploads.try_acquire(&tenant("acme"), 1).unwrap();
        permits.bodies.try_acquire(&tenant("acme"), whole).unwrap();
        assert_eq!(kind(permits.operator_bodies.try_acquire(&tenant("acme"), 4 << 10)), None);
        assert_eq!(
            kind(permits.operator_bodies.try_acquire(&tenant("acme"), (4 << 10) + 1)),
            Some(Kind::TenantBusy)
        );
    }

    #[test]
    fn a_slot_counts_for_its_tenant_until_it_is_released() {
        let permits = permits(&RequestLimits { requests: 4, ..RequestLimits::default() });
        let assigned = |name| {
            let slot = permits.take_slot()?;
            slot.assign_caller(&permits, Caller::Tenant(tenant(name))).map(|()| slot)
        };
        let first = assigned("acme").unwrap();
        assert_eq!(kind(assigned("acme")), Some(Kind::TenantBusy));
        assigned("umbrella").unwrap();
        assert_eq!(permits.requests.held_permits(), 1);
        first.release();
        assert_eq!(permits.requests.held_permits(), 0);
        assert_eq!(first.caller(), Caller::Tenant(tenant("acme")));
        assigned("acme").unwrap();
    }

    #[test]
    fn an_operator_has_a_slot_where_tenants_hold_all_of_them() {
        let permits = permits(&RequestLimits { requests: 2, tenant_share: 50, ..RequestLimits::default() });
        let assigned = |caller: Caller| {
            let slot = permits.take_slot()?;
            slot.assign_caller(&permits, caller).map(|()| slot)
        };
        let _held = ["acme", "umbrella"].map(|name| assigned(Caller::Tenant(tenant(name))).unwrap());
        assert_eq!(kind(assigned(Caller::Tenant(tenant("wayne")))), Some(Kind::Overloaded));
        let operators: Vec<_> =
            (0..OPERATOR_REQUESTS).map(|_| assigned(Caller::Operator(tenant("acme"))).unwrap()).collect();
        assert_eq!(permits.operator_requests.held_permits(), OPERATOR_REQUESTS);
        assert_eq!(kind(permits.take_slot()), Some(Kind::Overloaded));
        drop(operators);
        assert_eq!(permits.operator_requests.held_permits(), 0);
    }

    #[test]
    fn a_request_that_is_released_before_its_key_is_known_takes_nothing_until_it_resumes() {
        let permits = permits(&RequestLimits { requests: 1, tenant_share: 100, ..RequestLimits::default() });
        let slot = permits.take_slot().unwrap();
        slot.release();
        let other = permits.take_slot().unwrap();
        other.assign_caller(&permits, Caller::Tenant(tenant("umbrella"))).unwrap();
        // The rest is for operators only.
        slot.resume(&permits).unwrap();
        assert_eq!(
            kind(slot.assign_caller(&permits, Caller::Tenant(tenant("acme")))),
            Some(Kind::Overloaded)
        );
        other.release();
        slot.assign_caller(&permits, Caller::Tenant(tenant("acme"))).unwrap();
        assert_eq!((permits.requests.held_permits(), permits.operator_requests.held_permits()), (1, 0));
    }

    #[tokio::test]
    async fn tenants_together_leave_connections_for_operators() {
        let permits = permits(&RequestLimits { tenant_share: 50, ..RequestLimits::default() });
        let connection = async |name: &str| permits.connections.acquire(&tenant(name), 1).await;
        // Of eight there are five for tenants, and four for one of them.
        let mut held = Vec::new();
        for name in ["acme", "acme", "acme", "acme", "umbrella"] {
            held.push(connection(name).await);
        }
        let mut sixth = Box::pin(connection("umbrella"));
        assert!(futures::poll!(sixth.as_mut()).is_pending());
        held.pop();
        sixth.await;
    }
}
