//! The steps of a move, and who hears of them.

use std::future::ready;
use std::pin::Pin;
use tokio::time::Instant;

/// A place at which a move may be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The new cell knows the tenant.
    Arriving,
    /// Changes of rows are noted.
    Watched,
    /// One piece of a table is copied.
    Piece,
    /// All tables but the last are copied.
    TablesCopied,
    /// The objects are copied.
    ObjectsCopied,
    /// Noted changes are copied, and their notes are still there.
    ChangesCopied,
    /// No row may change.
    Frozen,
    /// Everything is copied and compared, and nothing is committed.
    Compared,
    /// The old cell has handed the tenant over, and the new one does not serve it yet.
    HandedOver,
    /// The new cell serves the tenant.
    Arrived,
    /// The directory names the new cell.
    Named,
    /// The old cell has sent its last messages and records.
    Drained,
    /// The old cell erases the tenant.
    Erasing,
    /// The old cell has erased the tenant.
    Erased,
}

/// The answer of [`MoveObserver::reach`].
pub type Reached<'o> = Pin<Box<dyn Future<Output = ()> + Send + 'o>>;

/// Hears about each step.
pub trait MoveObserver: Sync {
    /// Shows a line to the operator.
    fn say(&self, line: &str);

    /// Is called at each step. Tests end the move there.
    fn reach(&self, step: Step) -> Reached<'_> {
        let _ = step;
        Box::pin(ready(()))
    }
}

/// Returns the seconds since a time, for people.
pub(crate) fn seconds_since(begin: Instant) -> String {
    format!("{:.1} s", begin.elapsed().as_secs_f64())
}
