//! Moves report bodies from the database into segments, and deletes old segments from object storage. A
//! segment is written once.
//!
//! The process may die after every step. An intent is stored before the object, one transaction points the
//! reports to it, and leftovers are condemned and deleted later. Every indexer does this. The intent keeps
//! two of them from writing the same day at the same time.

/// Lets a test stop a [`BodyMover`] after a step, as the death of its process would.
macro_rules! failpoint {
    ($mover:expr, $step:ident) => {
        #[cfg(test)]
        $mover.failpoint.reach($crate::segments::tests::failpoint::MoveStep::$step).await;
    };
}

mod retention;
mod sink;
mod sweep;
#[cfg(test)]
pub mod tests;
mod write;

pub use retention::KeptDays;

use crate::config::Settings;
use crate::metrics::Metrics;
use std::time::Duration;
use unslide_artifacts::keys::ObjectKey;
use unslide_artifacts::segment::SegmentError;
use unslide_artifacts::{ObjectStore, StorageError};
use unslide_history::HistoryError;
use unslide_model::format_causes;
use unslide_runtime::{CpuError, CpuPool, Host, Shutdown};
use unslide_store::segments::{self, PendingDay};
use unslide_store::{Store, StoreError};

/// Timeout for writing one segment. An intent that is older than twice this has no writer.
const SEGMENT_WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// Number of segments that one round of maintenance writes, so that other work is not delayed.
const SEGMENTS_A_ROUND: usize = 16;

/// Reason why a segment could not be written, or rows could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The database did not answer or refused a query.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Object storage did not answer or refused a request.
    #[error("object storage failed")]
    Objects(#[from] StorageError),
    /// The bodies could not be compressed.
    #[error("compressing bodies failed")]
    Cpu(#[from] CpuError),
    /// A body could not be encrypted.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Object storage did not take this segment in time.
    #[error("writing the segment {0} took too long")]
    Slow(ObjectKey),
    /// ClickHouse did not answer or refused a request.
    #[error("ClickHouse failed")]
    History(#[from] HistoryError),
    /// ClickHouse did not take rows in time.
    #[error("moving rows to ClickHouse took too long")]
    SlowHistory,
    /// Another indexer has given the move up.
    #[error("the move of rows of {0} was given up by another indexer")]
    FencedHistory(time::Date),
    /// Another indexer has taken over.
    #[error("the segment {0} was given up by another indexer")]
    Fenced(ObjectKey),
}

/// Moves bodies into segments, and deletes expired data.
pub struct BodyMover {
    store: Store,
    objects: ObjectStore,
    cpu: CpuPool,
    settings: Settings,
    metrics: Metrics,
    shutdown: Shutdown,
    #[cfg(test)]
    failpoint: tests::failpoint::Failpoint,
}

impl BodyMover {
    /// Creates a mover between `store` and `objects`.
    pub fn new(
        store: Store,
        objects: ObjectStore,
        settings: Settings,
        metrics: Metrics,
        host: &Host,
    ) -> BodyMover {
        BodyMover {
            store,
            objects,
            cpu: host.cpu.clone(),
            settings,
            metrics,
            shutdown: host.shutdown.clone(),
            #[cfg(test)]
            failpoint: tests::failpoint::Failpoint::default(),
        }
    }

    /// Runs one round: deletes what is condemned and moves what is due. Returns true if there is more work
    /// than one round does.
    ///
    /// # Errors
    /// Returns the first failure of the round. A failure for one tenant does not stop the round for the
    /// others.
    pub async fn run_round(&self) -> Result<bool, MoveError> {
        let mut left = SEGMENTS_A_ROUND;
        let mut failed = self.sweep_objects().await.err();
        let pending = segments::list_pending(&self.store).await?;
        self.metrics.set_pending_age(&pending, self.store.clock().now());
        for PendingDay { tenant, day, .. } in pending.into_iter().filter(|pending| self.is_due(pending)) {
            loop {
                if left == 0 || self.shutdown.is_begun() {
                    return Ok(left == 0);
                }
                left -= 1;
                match Box::pin(self.move_day(&tenant, day)).await {
                    Ok(true) => {}
                    // The cell that serves a tenant that is moving does it.
                    Ok(false) | Err(MoveError::Store(StoreError::TenantMoving)) => break,
                    Err(trouble) => {
                        tracing::warn!(
                            error = format_causes(&trouble),
                            segment.day = %day,
                            "a segment could not be written and is tried again"
                        );
                        failed = failed.or(Some(trouble));
                        break;
                    }
                }
            }
        }
        failed.map_or(Ok(false), Err)
    }

    /// Returns true if the bodies have to move: if the oldest has waited long enough, if they fill a segment,
    /// or if one is too large for a message.
    fn is_due(&self, pending: &PendingDay) -> bool {
        let after = i64::try_from(self.settings.segment_after_seconds).unwrap_or(i64::MAX);
        let age = self.store.clock().now() - pending.oldest;
        age >= time::Duration::seconds(after)
            || pending.bytes >= self.settings.segment_bytes
            || pending.largest >= self.settings.segment_large_bytes
    }
}
