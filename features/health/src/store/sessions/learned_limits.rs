//! The memory limits that other runs teach, for the judgement of sessions.

use super::SessionArrival;
use crate::store::figures::memory_limits::{self, system_version};
use std::collections::{BTreeMap, BTreeSet};
use unslide_store::{Result, TenantTx};

/// The memory limits that the sessions of a batch are judged by, from reports and other sessions: each with
/// its app, device model and version of the system.
#[derive(Debug, Default)]
pub(super) struct LearnedLimits<'a>(BTreeMap<[&'a str; 3], Option<u64>>);

impl<'a> LearnedLimits<'a> {
    /// Reads those of the sessions with an end that they can judge.
    pub(super) async fn read(
        tx: &mut TenantTx,
        arrivals: &[&'a SessionArrival],
    ) -> Result<LearnedLimits<'a>> {
        let asking = arrivals.iter().filter(|arrival| arrival.event.asks_for_limit());
        let asked: BTreeSet<[&str; 3]> = asking.filter_map(|arrival| made_on(arrival)).collect();
        let asked: Vec<[&str; 3]> = asked.into_iter().collect();
        let limits = memory_limits::learned_limits(tx, &asked).await?;
        Ok(LearnedLimits(asked.into_iter().zip(limits).collect()))
    }

    /// Returns the limit of a session's device and system.
    pub(super) fn for_session(&self, arrival: &SessionArrival) -> Option<u64> {
        self.0.get(&made_on(arrival)?).copied().flatten()
    }
}

/// Returns the app, the device model and the version of the system of a session.
fn made_on(arrival: &SessionArrival) -> Option<[&str; 3]> {
    let event = &arrival.event;
    let (device, os) = (event.device.as_deref()?, event.os.as_deref()?);
    Some([&event.app, device, system_version(os)?])
}
