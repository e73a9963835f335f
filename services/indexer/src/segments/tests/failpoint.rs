//! Stops a move after a step, as the death of its process would.

use std::future::pending;
use tokio::sync::Notify;

/// A step after which a process may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    Intended,
    Put,
    /// The transaction that points the reports to the object is complete but not committed.
    Pointed,
    Live,
    /// A condemned object is deleted, but its row is not.
    Deleted,
}

/// The step after which a mover stops.
#[derive(Default)]
pub struct Failpoint {
    stop_after: Option<MoveStep>,
    stopped: Notify,
}

impl Failpoint {
    pub fn new(stop_after: Option<MoveStep>) -> Failpoint {
        Failpoint { stop_after, stopped: Notify::new() }
    }

    /// Never returns after the step at which the mover stops.
    pub async fn reach(&self, step: MoveStep) {
        if self.stop_after == Some(step) {
            self.stopped.notify_one();
            pending::<()>().await;
        }
    }

    pub async fn wait_until_stopped(&self) {
        self.stopped.notified().await;
    }
}
