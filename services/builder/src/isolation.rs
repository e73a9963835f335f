//! Runs jobs alone in their process if builders have died with them.
//!
//! A builder that dies takes all of its jobs with it, and it is unknown which of them killed it. So each of
//! them is counted an attempt. From the third attempt on, a job starts when no other job runs in its process,
//! and no other starts until it has ended. If the builder dies then, only this job can be the cause. A job
//! that waits to run alone is not in flight: its attempt is counted when it begins.

use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The attempt from which on a job runs alone.
pub(crate) const ALONE_FROM: u32 = 3;

/// Gate that a job passes before it starts: many jobs concurrently, or one alone. A job that waits to run
/// alone blocks all later ones.
#[derive(Clone, Default)]
pub(crate) struct IsolationGate(Arc<RwLock<()>>);

/// Permission to run beside other jobs. It is taken before a job is leased.
pub(crate) type Beside = OwnedRwLockReadGuard<()>;

/// Permission with which a job runs.
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum Pass {
    Beside(Beside),
    Alone(OwnedRwLockWriteGuard<()>),
}

impl IsolationGate {
    /// Waits until no job runs alone or waits to.
    pub(crate) async fn wait_beside(&self) -> Beside {
        self.0.clone().read_owned().await
    }

    /// Waits until no other job runs.
    pub(crate) async fn wait_alone(&self) -> OwnedRwLockWriteGuard<()> {
        self.0.clone().write_owned().await
    }
}
