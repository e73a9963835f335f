//! Work that a feature does for tenants beside the requests of the api, for a few of them at once.
//!
//! Every process of the api runs it. The database says which tenants have work that is due, and gives it to one process at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use unslide_model::TenantId;
use unslide_store::Result;

/// Tenants that one look gives.
const DUE_TENANTS_LIMIT: u16 = 20;

/// The first pause after a failure, which triples up to the longest.
const FIRST_BACKOFF: time::Duration = time::Duration::seconds(10);
/// The longest pause after a failure.
pub const BACKOFF_MAX: time::Duration = time::Duration::hours(6);

/// The longest pause after a failure of a tenant's own server.
const SERVER_PAUSE_MAX: time::Duration = time::Duration::hours(1);

/// Failures after which a pause grows no more, whatever its limit.
const GROWTHS_LIMIT: u32 = 13;

/// Returns the pause before the next attempt after this many have failed.
#[must_use]
pub fn retry_pause(attempts: i32) -> time::Duration {
    let further = u32::try_from(attempts.saturating_sub(1)).unwrap_or_default();
    grow_pause(FIRST_BACKOFF, 3, further, BACKOFF_MAX)
}

/// Returns the pause before a tenant's own server is asked again after a failure that follows a number of others. The server may want a
/// longer one, up to an hour.
#[must_use]
pub fn server_pause(failures_before: i32, wanted: Option<time::Duration>) -> time::Duration {
    let usual = retry_pause(failures_before.saturating_add(1)).min(SERVER_PAUSE_MAX);
    wanted.map_or(usual, |wanted| wanted.clamp(usual, SERVER_PAUSE_MAX))
}

/// Returns the first pause, multiplied by `factor` for each further failure, up to the longest.
#[must_use]
pub fn grow_pause(
    first: time::Duration,
    factor: i32,
    further_failures: u32,
    longest: time::Duration,
) -> time::Duration {
    (first * factor.pow(further_failures.min(GROWTHS_LIMIT))).min(longest)
}

/// Work that a feature does for tenants.
pub trait TenantWork: Send + Sync + 'static {
    /// Tenants that a process works for at once.
    const CONCURRENT_TENANTS_LIMIT: usize;
    /// The line of the log if due tenants cannot be listed.
    const LOOK_FAILURE: &'static str;

    /// Returns tenants with work that is due, at most `limit`. `last` is the tenant whose turn began last; empty before the first.
    fn list_due(&self, last: &str, limit: u16) -> impl Future<Output = Result<Vec<TenantId>>> + Send;

    /// Works for a tenant, and records what failed.
    fn take_turn(&self, tenant: &TenantId) -> impl Future<Output = ()> + Send;
}

/// Takes the turns of tenants that are due, until `stop`. What is under way then ends with its process, and goes on after its lease.
/// Tenants that are moving to another cell have no turns: the database does not list them.
pub fn start_tenant_turns<W: TenantWork>(
    work: W,
    look_interval: Duration,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let work = Arc::new(work);
    tokio::spawn(async move {
        let (mut turns, mut tenants, mut last) = (JoinSet::new(), BTreeSet::new(), String::new());
        while tokio::time::timeout(look_interval, stop.cancelled()).await.is_err() {
            while let Some(ended) = turns.try_join_next() {
                match ended {
                    Ok(tenant) => drop(tenants.remove(&tenant)),
                    // Which one it was is not known: forget them all, the database keeps them apart.
                    Err(_) => tenants.clear(),
                }
            }
            match work.list_due(&last, DUE_TENANTS_LIMIT).await {
                Ok(due) => {
                    for tenant in due {
                        if turns.len() < W::CONCURRENT_TENANTS_LIMIT && tenants.insert(tenant.clone()) {
                            tenant.as_str().clone_into(&mut last);
                            let work = work.clone();
                            turns.spawn(async move {
                                work.take_turn(&tenant).await;
                                tenant
                            });
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "{}", W::LOOK_FAILURE),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_of_a_server_grow_to_an_hour() {
        let seconds = [0, 1, 2, i32::MAX].map(|failures| server_pause(failures, None).whole_seconds());
        assert_eq!(seconds, [10, 30, 90, 3_600]);
        let wanted = [1, 60, 100_000].map(|wanted| server_pause(0, Some(time::Duration::seconds(wanted))));
        assert_eq!(wanted.map(time::Duration::whole_seconds), [10, 60, 3_600]);
    }
}
