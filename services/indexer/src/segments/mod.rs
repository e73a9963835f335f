//! Moves report bodies from the database into segments, and deletes old segments from object storage. A
//! segment is written once.
//!
//! The process may die after every step. An intent is stored before the object, one transaction points the
//! reports to it, and leftovers are condemned and deleted later. Every indexer does this. The intent keeps
//! two of them from writing the same day at the same time.

mod retention;
mod sink;
mod sweep;
#[cfg(test)]
pub mod tests;
mod write;

use crate::config::Settings;
use crate::metrics::Metrics;
use std::future::Future;
use std::time::Duration;
use time::Date;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::segment::SegmentError;
use unslide_artifacts::{Condition, ObjectStore, Put, StorageError};
use unslide_model::TenantId;
use unslide_runtime::{CpuError, CpuPool, Host, Shutdown, format_causes};
use unslide_store::segments::{self, PendingDay, SegmentIntent};
use unslide_store::{Store, StoreError};

/// Timeout for writing one segment. An intent that is older than twice this has no writer.
const SEGMENT_WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// Number of segments that one round of maintenance writes, so that other work is not delayed.
const SEGMENTS_A_ROUND: usize = 16;

/// Reason why a segment could not be written.
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
    /// Another indexer has taken over.
    #[error("the segment {0} was given up by another indexer")]
    Fenced(ObjectKey),
    /// A test lets the process die here.
    #[cfg(test)]
    #[error("stopped after {0:?}")]
    Stopped(MoveStep),
}

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

/// Moves bodies into segments, and deletes expired data.
pub struct BodyMover {
    store: Store,
    objects: ObjectStore,
    cpu: CpuPool,
    settings: Settings,
    metrics: Metrics,
    shutdown: Shutdown,
    #[cfg(test)]
    die_after: Option<MoveStep>,
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
            die_after: None,
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
        #[cfg(test)]
        if let Some(stopped @ MoveError::Stopped(_)) = failed {
            return Err(stopped);
        }
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
                    Ok(false) => break,
                    #[cfg(test)]
                    Err(stopped @ MoveError::Stopped(_)) => return Err(stopped),
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

    /// Stores the intent to write a segment. Returns `None` if another indexer writes one of this day.
    async fn begin_segment(
        &self,
        tenant: &TenantId,
        day: Date,
    ) -> Result<Option<(SegmentIntent, ObjectKey)>, MoveError> {
        let mut tx = self.store.tenant(tenant).await?;
        let id = segments::new_id(&mut tx).await?;
        let key = keys::for_segment(tenant, day, id);
        let begun = segments::begin_segment(&mut tx, id, day, key.as_str()).await?;
        tx.commit().await?;
        self.reach(MoveStep::Intended)?;
        Ok(begun.map(|begun| (begun, key)))
    }

    /// Stores the bytes of `source` while `fill` writes them. Returns the result of `fill`.
    async fn put_segment<T>(
        &self,
        key: &ObjectKey,
        source: tokio::io::DuplexStream,
        fill: impl Future<Output = Result<T, MoveError>>,
    ) -> Result<T, MoveError> {
        let put = Put { condition: Condition::Absent, ..Put::default() };
        // The last frame may have the maximum size.
        let limit = self.settings.segment_bytes + (2 << 30);
        // The object store's client makes large futures.
        let stored = Box::pin(async { Ok(self.objects.put_stream(key, source, limit, &put).await?) });
        let fill = Box::pin(fill);
        let both = tokio::time::timeout(SEGMENT_WRITE_TIMEOUT, async { tokio::try_join!(fill, stored) });
        let (filled, _) = both.await.map_err(|_| MoveError::Slow(key.clone()))??;
        self.reach(MoveStep::Put)?;
        Ok(filled)
    }

    /// Gives up an intent at once after a failure, instead of when it is old.
    async fn give_up(&self, tenant: &TenantId, begun: &SegmentIntent, trouble: &MoveError) {
        #[cfg(test)]
        if let MoveError::Stopped(_) = trouble {
            return;
        }
        if let MoveError::Fenced(_) = trouble {
            return;
        }
        let given_up = async {
            let mut tx = self.store.tenant(tenant).await?;
            segments::give_up(&mut tx, begun).await?;
            tx.commit().await
        };
        if let Err(error) = given_up.await {
            // The intent is given up when it is old.
            tracing::debug!(error = format_causes(&error), "an intent could not be given up");
        }
    }

    #[cfg(test)]
    fn reach(&self, step: MoveStep) -> Result<(), MoveError> {
        if self.die_after == Some(step) { Err(MoveError::Stopped(step)) } else { Ok(()) }
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "a test stops the process here")]
    fn reach(&self, _step: MoveStep) -> Result<(), MoveError> {
        Ok(())
    }
}
