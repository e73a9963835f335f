//! A request's slot among the running requests, and the caller for which it counts.

use super::permits::{NetworkSemaphore, Permit, Permits, RETRY_AFTER};
use crate::problem::{Kind, Problem};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_runtime::clients::Network;
use unslide_runtime::fairness::{Exhausted, FairPermit};

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The key is not checked yet.
    Unknown,
    Tenant(TenantId),
    /// A caller that anyone may be: a public key of this tenant, a names key, a link in a message, or a person before the
    /// sign-in.
    Public(TenantId),
    /// An operator, with a key of this tenant, for an operation that only operators may use.
    Operator(TenantId),
}

impl Caller {
    /// Returns the tenant of the key, or None if it is not known yet.
    #[must_use]
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Caller::Unknown => None,
            Caller::Tenant(tenant) | Caller::Public(tenant) | Caller::Operator(tenant) => Some(tenant),
        }
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
    /// A permit among those of its tenant's public callers.
    public: Option<Permit>,
    /// A permit of the client's network, while the body arrives.
    arriving: Option<FairPermit<Network>>,
    /// A file arrives before the key, at a pace of its own.
    has_file_before_key: bool,
}

impl SlotState {
    fn take(permits: &Permits) -> Result<SlotState, Exhausted> {
        let (permit, reserved) = match permits.requests.try_acquire_unassigned(1) {
            Ok(permit) => (permit, false),
            Err(_) => (permits.operator_requests.try_acquire_unassigned(1)?, true),
        };
        Ok(SlotState {
            caller: Caller::Unknown,
            permit: Some(permit),
            reserved,
            public: None,
            arriving: None,
            has_file_before_key: false,
        })
    }

    /// Takes a permit again if none is held, before the caller is known.
    fn resume(&mut self, permits: &Permits) -> Result<(), Exhausted> {
        if self.permit.is_none() {
            *self = SlotState::take(permits)?;
        }
        Ok(())
    }

    /// Counts the request for a tenant.
    fn assign_tenant(&mut self, permits: &Permits, tenant: &TenantId) -> Result<(), Exhausted> {
        if let Some(permit) = self.permit.as_mut().filter(|_| !self.reserved) {
            return permit.assign_owner(tenant);
        }
        // The permit is reserved for operators, or was released while the body arrived.
        self.permit = Some(permits.requests.try_acquire(tenant, 1)?);
        self.reserved = false;
        Ok(())
    }
}

impl RequestSlot {
    /// Takes a slot among the running requests, before the request's tenant is known. If all are taken,
    /// returns a slot that only an operator's operation can keep.
    ///
    /// # Errors
    /// [`Exhausted::All`].
    pub fn take(permits: &Permits) -> Result<RequestSlot, Exhausted> {
        Ok(RequestSlot(Arc::new(Mutex::new(SlotState::take(permits)?))))
    }

    /// Counts the request as this caller's. An operator's request takes nothing from its tenant's share.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn assign_caller(&self, permits: &Permits, caller: Caller) -> Result<(), Exhausted> {
        let mut slot = self.lock_state();
        if slot.caller == caller {
            return Ok(());
        }
        let mut public = None;
        match &caller {
            Caller::Unknown => {}
            Caller::Tenant(tenant) => slot.assign_tenant(permits, tenant)?,
            Caller::Public(tenant) => {
                public = Some(permits.public_requests.try_acquire(tenant, 1)?);
                slot.assign_tenant(permits, tenant)?;
            }
            Caller::Operator(_) => slot.resume(permits)?,
        }
        (slot.caller, slot.public, slot.arriving) = (caller, public, None);
        Ok(())
    }

    /// Returns the caller of the request.
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.lock_state().caller.clone()
    }

    /// Releases the slot, because the request has ended or only waits.
    pub fn release(&self) {
        let mut slot = self.lock_state();
        (slot.permit, slot.public, slot.arriving) = (None, None, None);
    }

    /// Returns true if the caller may be anyone: the key is not known, or public.
    #[must_use]
    pub fn is_of_stranger(&self) -> bool {
        matches!(self.lock_state().caller, Caller::Unknown | Caller::Public(_))
    }

    /// Releases the slot while the rest of the body has not come, unless the key is known: clients that send nothing would
    /// hold all slots.
    pub fn pause_for_body(&self) {
        let mut slot = self.lock_state();
        if slot.caller == Caller::Unknown {
            slot.permit = None;
        }
    }

    /// Takes a permit of the client's network for the time in which the body arrives, if the caller may be anyone. A small
    /// body without a key needs none. Returns true if the key must come soon.
    ///
    /// # Errors
    /// Too many such bodies are arriving.
    pub fn wait_for_body(
        &self,
        permits: &Permits,
        network: Option<Network>,
        is_small: bool,
    ) -> Result<bool, Problem> {
        self.pause_for_body();
        let mut slot = self.lock_state();
        if slot.arriving.is_none() {
            slot.arriving = match &slot.caller {
                Caller::Unknown if !is_small => Some(acquire_arriving(&permits.keyless_bodies, network)?),
                Caller::Public(_) => Some(acquire_arriving(&permits.arriving_public_bodies, network)?),
                Caller::Unknown | Caller::Tenant(_) | Caller::Operator(_) => None,
            };
        }
        Ok(slot.caller == Caller::Unknown && !slot.has_file_before_key)
    }

    /// Records that the body is complete, and takes a slot again if the key is still unknown.
    ///
    /// # Errors
    /// [`Exhausted::All`].
    pub fn end_body(&self, permits: &Permits) -> Result<(), Exhausted> {
        let mut slot = self.lock_state();
        slot.arriving = None;
        if slot.caller == Caller::Unknown { slot.resume(permits) } else { Ok(()) }
    }

    /// Records that the body is not read any more.
    pub fn abandon_body(&self) {
        self.lock_state().arriving = None;
    }

    /// Records whether a file arrives before the key. The key need not come while it does.
    pub fn set_file_before_key(&self, arrives: bool) {
        self.lock_state().has_file_before_key = arrives;
    }

    fn lock_state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock()
    }
}

/// Takes a permit for a body that arrives from a network.
fn acquire_arriving(
    bodies: &NetworkSemaphore,
    network: Option<Network>,
) -> Result<FairPermit<Network>, Problem> {
    let permit = match network {
        Some(network) => bodies.try_acquire(&network, 1),
        None => bodies.try_acquire_unassigned(1),
    };
    permit.map_err(|exhausted| {
        let detail = match exhausted {
            Exhausted::Share { name, share } => {
                format!("Too many concurrent {name}: one address may have {share}")
            }
            Exhausted::All { .. } => exhausted.to_string(),
        };
        Problem::new(Kind::Overloaded, detail).retry_after(RETRY_AFTER)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::permits::OPERATOR_REQUESTS;
    use crate::limits::permits::tests::permits;
    use crate::limits::request_limits::RequestLimits;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn network(last: u8) -> Option<Network> {
        Some(Network::from_address([10, 0, 0, last].into()))
    }

    fn kind<T>(taken: Result<T, impl Into<Problem>>) -> Option<Kind> {
        taken.err().map(|error| error.into().kind())
    }

    #[test]
    fn a_slot_counts_for_its_tenant_until_it_is_released() {
        let permits = permits(&RequestLimits { requests: 4, ..RequestLimits::default() });
        let assigned = |name| {
            let slot = RequestSlot::take(&permits)?;
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
            let slot = RequestSlot::take(&permits)?;
            slot.assign_caller(&permits, caller).map(|()| slot)
        };
        let _held = ["acme", "umbrella"].map(|name| assigned(Caller::Tenant(tenant(name))).unwrap());
        assert_eq!(kind(assigned(Caller::Tenant(tenant("wayne")))), Some(Kind::Overloaded));
        let operators: Vec<_> =
            (0..OPERATOR_REQUESTS).map(|_| assigned(Caller::Operator(tenant("acme"))).unwrap()).collect();
        assert_eq!(permits.operator_requests.held_permits(), OPERATOR_REQUESTS);
        assert_eq!(kind(RequestSlot::take(&permits)), Some(Kind::Overloaded));
        drop(operators);
        assert_eq!(permits.operator_requests.held_permits(), 0);
    }

    #[test]
    fn a_request_that_is_released_before_its_key_is_known_takes_nothing_until_it_resumes() {
        let permits = permits(&RequestLimits { requests: 1, tenant_share: 100, ..RequestLimits::default() });
        let slot = RequestSlot::take(&permits).unwrap();
        assert!(slot.wait_for_body(&permits, None, true).unwrap());
        let other = RequestSlot::take(&permits).unwrap();
        other.assign_caller(&permits, Caller::Tenant(tenant("umbrella"))).unwrap();
        // The rest is for operators only.
        slot.end_body(&permits).unwrap();
        assert_eq!(
            kind(slot.assign_caller(&permits, Caller::Tenant(tenant("acme")))),
            Some(Kind::Overloaded)
        );
        other.release();
        slot.assign_caller(&permits, Caller::Tenant(tenant("acme"))).unwrap();
        assert_eq!((permits.requests.held_permits(), permits.operator_requests.held_permits()), (1, 0));
    }

    /// Proves: fairness
    #[test]
    fn bodies_without_a_key_hold_no_slot_and_are_bounded() {
        let permits = permits(&RequestLimits { requests: 100, ..RequestLimits::default() });
        let wait = |network, is_small| {
            let slot = RequestSlot::take(&permits).unwrap();
            slot.wait_for_body(&permits, network, is_small).map(|needs_key| {
                assert!(needs_key);
                slot
            })
        };
        let held: Vec<_> = (0..16).map(|n| wait(network(n / 2), false).unwrap()).collect();
        assert_eq!(kind(wait(network(0), false)), Some(Kind::Overloaded));
        assert_eq!(kind(wait(network(9), false)), Some(Kind::Overloaded), "all are taken");
        assert_eq!(kind(wait(None, false)), Some(Kind::Overloaded));
        let small = wait(network(0), true).unwrap();
        assert_eq!(permits.requests.held_permits(), 0);
        small.end_body(&permits).unwrap();
        assert_eq!(permits.requests.held_permits(), 1);
        // The key has come before the rest of its body.
        held[0].assign_caller(&permits, Caller::Tenant(tenant("acme"))).unwrap();
        assert!(!held[0].wait_for_body(&permits, network(0), false).unwrap());
        assert_eq!((permits.requests.held_permits(), permits.keyless_bodies.held_permits()), (2, 15));
        held[1].set_file_before_key(true);
        assert!(!held[1].wait_for_body(&permits, network(0), false).unwrap());
        drop((held, small));
        assert_eq!((permits.requests.held_permits(), permits.keyless_bodies.held_permits()), (0, 0));
    }

    /// Proves: fairness
    #[test]
    fn public_callers_leave_half_of_their_tenants_slots_and_bodies() {
        let limits = RequestLimits { requests: 40, tenant_share: 50, ..RequestLimits::default() };
        let permits = permits(&limits);
        let assigned = |caller: fn(TenantId) -> Caller| {
            let slot = RequestSlot::take(&permits)?;
            slot.assign_caller(&permits, caller(tenant("acme"))).map(|()| slot)
        };
        let public: Vec<_> = (0..10).map(|_| assigned(Caller::Public).unwrap()).collect();
        assert_eq!(kind(assigned(Caller::Public)), Some(Kind::TenantBusy));
        let own: Vec<_> = (0..10).map(|_| assigned(Caller::Tenant).unwrap()).collect();
        assert_eq!(kind(assigned(Caller::Tenant)), Some(Kind::TenantBusy));
        // Eight of a network's bodies may arrive.
        let arrive = |slot: &RequestSlot, last| slot.wait_for_body(&permits, network(last), false);
        for slot in &public[..8] {
            assert!(!arrive(slot, 1).unwrap());
        }
        assert_eq!(kind(arrive(&public[8], 1)), Some(Kind::Overloaded));
        assert!(!arrive(&public[8], 2).unwrap());
        public[0].end_body(&permits).unwrap();
        assert!(!arrive(&public[9], 1).unwrap());
        assert_eq!(permits.requests.held_permits(), 20);
        drop((public, own));
        assert_eq!(permits.public_requests.held_permits(), 0);
        let half = limits.ingest_unpacked_bytes * limits.bodies as u64 / 4;
        let mut body = permits.reserve_public_body(&tenant("acme")).unwrap();
        body.reserve_more(half).unwrap();
        let mut second = permits.reserve_public_body(&tenant("acme")).unwrap();
        assert_eq!(kind(second.reserve_more(1)), Some(Kind::TenantBusy));
        assert_eq!(permits.bodies.held_permits(), half >> 10);
    }
}
