//! Jobs that builders have died with run alone in their process.
//!
//! A builder that dies takes all of its jobs with it, and it is unknown which of them killed it. Each
//! is counted an attempt. Twice that is a guess; from the third attempt on a job is begun when no other
//! runs in its process, and no other is taken until it has ended, so that who dies with it then is it
//! alone. What waits for its turn is not in flight: its attempt is counted when it begins.

use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The attempt from which on a job runs alone.
pub(crate) const ALONE_FROM: u32 = 3;

/// Where jobs pass to be begun: many beside each other, or one alone. Whoever waits to be alone holds up
/// all that come after.
#[derive(Clone, Default)]
pub(crate) struct IsolationGate(Arc<RwLock<()>>);

/// The leave to run beside others. It is taken before a job is leased.
pub(crate) type Beside = OwnedRwLockReadGuard<()>;

/// The leave that a job runs with.
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum Pass {
    /// Other jobs run too.
    Beside(Beside),
    /// No other job runs.
    Alone(OwnedRwLockWriteGuard<()>),
}

impl IsolationGate {
    /// Waits until no job runs alone or waits to.
    pub(crate) async fn beside(&self) -> Beside {
        self.0.clone().read_owned().await
    }

    /// Waits until no other job runs.
    pub(crate) async fn alone(&self) -> OwnedRwLockWriteGuard<()> {
        self.0.clone().write_owned().await
    }
}
