//! Looks at bodies that were stored some minutes ago, and drops those over the caps of their groups, beside the requests of the api.
//!
//! Every process of the api looks. The database gives a tenant to one process at a time. A step is one transaction, which also records
//! how far the look has come: after the death of a process the next one repeats what was not committed.

use crate::choosing::{BodyCandidate, choose_bodies};
use crate::store::{self, CandidateGroup};
use std::sync::Arc;
use time::{Date, Duration, UtcOffset};
use tokio::time::Instant;
use unslide_api::feature::tenant_turns::TenantWork;
use unslide_api::feature::{OutcomeCounts, Storage};
use unslide_model::{TenantId, format_causes};
use unslide_store::reports::kept_bodies::{BodyChoice, StoredRevision, UnkeptBody, store_choice};
use unslide_store::{Result, Store};

/// Time for which every body stays after it was stored: what reads a new report, such as an export, reads it by then. Bodies move to
/// object storage much later.
pub const SETTLING_TIME: Duration = Duration::minutes(2);
/// The pause between two turns of a tenant.
const TURN_INTERVAL: Duration = Duration::minutes(1);
/// Days after which a body is no longer kept for symbols that may come.
pub const WAITING_DAYS: i64 = 30;
/// Time after which no further step of a turn is begun, so that others have their turn.
const TURN_TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

/// Drops bodies over the caps of all tenants.
pub struct BodySweep {
    storage: Arc<Storage>,
    outcomes: Arc<OutcomeCounts>,
}

impl BodySweep {
    pub fn new(storage: Arc<Storage>, outcomes: Arc<OutcomeCounts>) -> BodySweep {
        BodySweep { storage, outcomes }
    }
}

impl TenantWork for BodySweep {
    const CONCURRENT_TENANTS_LIMIT: usize = 1;
    const LOOK_FAILURE: &'static str = "tenants with bodies over a cap could not be looked for";

    async fn list_due(&self, last: &str, limit: u16) -> Result<Vec<TenantId>> {
        store::list_due_tenants(&self.storage.store, last, limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        match take_turn(&self.storage.store, tenant).await {
            Ok(0) => {}
            Ok(dropped) => {
                self.outcomes.add("dropped", usize::try_from(dropped).unwrap_or(usize::MAX));
                tracing::debug!(%tenant, dropped, "bodies over a cap were dropped");
            }
            Err(error) => {
                let error = format_causes(&error);
                tracing::warn!(error, %tenant, "bodies over a cap could not be dropped, and are tried again");
            }
        }
    }
}

/// Takes the turn of a tenant if it is due. Returns the number of bodies that were dropped.
///
/// # Errors
/// The database fails. What was committed stays, and the next turn goes on behind it.
pub async fn take_turn(store: &Store, tenant: &TenantId) -> Result<u64> {
    let mut tx = store.tenant(tenant).await?;
    let is_claimed = store::claim_turn(&mut tx).await?;
    tx.commit().await?;
    if !is_claimed {
        return Ok(0);
    }
    let end = Instant::now() + TURN_TIME_LIMIT;
    let (mut dropped, mut is_over) = (0, false);
    while !is_over && Instant::now() < end {
        let step = sweep_new(store, tenant).await?;
        (dropped, is_over) = (dropped + step.dropped, step.is_last);
    }
    let mut is_over_too = false;
    while is_over && !is_over_too && Instant::now() < end {
        let step = sweep_waiting(store, tenant).await?;
        (dropped, is_over_too) = (dropped + step.dropped, step.is_last);
    }
    let mut tx = store.tenant(tenant).await?;
    let is_done = is_over && is_over_too;
    store::end_turn(&mut tx, if is_done { TURN_INTERVAL } else { Duration::ZERO }).await?;
    tx.commit().await?;
    Ok(dropped)
}

struct SweepStep {
    dropped: u64,
    /// True if nothing is left to do for now.
    is_last: bool,
}

/// Looks at the next bodies that were stored.
async fn sweep_new(store: &Store, tenant: &TenantId) -> Result<SweepStep> {
    let mut tx = store.tenant(tenant).await?;
    let until = tx.now() - SETTLING_TIME;
    let Some(turn) = store::hold_turn(&mut tx).await?.filter(|turn| turn.swept_to < until) else {
        tx.rollback().await?;
        return Ok(SweepStep { dropped: 0, is_last: true });
    };
    let next = store::next_slice(&mut tx, turn.swept_to, until).await?;
    let groups = store::list_slice_groups(&mut tx, next.slice).await?;
    let mut choice = BodyChoice::default();
    if !groups.is_empty() {
        for (place, candidates) in store::list_candidates(&mut tx, &groups, next.slice).await? {
            if let Some(group) = groups.get(place) {
                add_choice(&mut choice, group, candidates);
            }
        }
    }
    let dropped = store_choice(&mut tx, &choice).await?;
    store::record_slice(&mut tx, next.slice.to).await?;
    tx.commit().await?;
    Ok(SweepStep { dropped, is_last: next.is_last })
}

/// Adds the choice among the bodies of a day, if they are more than its cap.
fn add_choice(choice: &mut BodyChoice, group: &CandidateGroup, mut candidates: Vec<BodyCandidate>) {
    let cap = usize::try_from(group.bodies).unwrap_or(usize::MAX);
    if candidates.len() <= cap && !choice.drops_waiting {
        return;
    }
    let of_day = choose_bodies(&mut candidates, cap);
    let new = of_day.kept.iter().map(|place| &candidates[*place]).filter(|candidate| !candidate.is_kept);
    choice.kept.extend(new.map(|candidate| candidate.report));
    choice.dropped.extend(of_day.dropped.into_iter().map(|(place, like)| {
        let StoredRevision { report_id, variant, .. } = candidates[like].report;
        UnkeptBody { report: candidates[place].report, like: (report_id, variant), kept_bodies: group.bodies }
    }));
}

/// Looks at the next group of a day of which bodies have waited for symbols long enough.
async fn sweep_waiting(store: &Store, tenant: &TenantId) -> Result<SweepStep> {
    let mut tx = store.tenant(tenant).await?;
    let today = tx.now().to_offset(UtcOffset::UTC).date();
    let last_day = today.saturating_sub(Duration::days(WAITING_DAYS + 1));
    let Some(turn) = store::hold_turn(&mut tx).await?.filter(|turn| turn.wait_day <= last_day) else {
        tx.rollback().await?;
        return Ok(SweepStep { dropped: 0, is_last: true });
    };
    let group = store::next_waiting_group(&mut tx, turn.wait_day, turn.wait_group).await?;
    let Some(group) = group else {
        let next = turn.wait_day.next_day().unwrap_or(Date::MAX);
        store::record_waiting(&mut tx, next, None).await?;
        tx.commit().await?;
        return Ok(SweepStep { dropped: 0, is_last: false });
    };
    tx.rollback().await?;
    let dropped = sweep_group(store, tenant, &group).await?;
    let mut tx = store.tenant(tenant).await?;
    store::record_waiting(&mut tx, group.day, Some(group.group)).await?;
    tx.commit().await?;
    Ok(SweepStep { dropped, is_last: false })
}

/// Looks at all bodies of a group and day that no choice was made about, step by step in the order of their arrival.
async fn sweep_group(store: &Store, tenant: &TenantId, group: &CandidateGroup) -> Result<u64> {
    let (mut after, mut dropped) = (None, 0);
    loop {
        let mut tx = store.tenant(tenant).await?;
        let mut candidates = store::list_unchosen(&mut tx, group, after).await?;
        let Some(last) = candidates.last().map(|candidate| candidate.report) else {
            tx.rollback().await?;
            return Ok(dropped);
        };
        after = Some(last);
        candidates.extend(store::list_kept(&mut tx, group).await?);
        let mut choice = BodyChoice { drops_waiting: true, ..BodyChoice::default() };
        add_choice(&mut choice, group, candidates);
        dropped += store_choice(&mut tx, &choice).await?;
        tx.commit().await?;
    }
}
