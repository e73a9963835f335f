//! Deletes condemned objects.

use super::{BodyMover, MoveError, SEGMENT_WRITE_TIMEOUT};
use unslide_artifacts::keys::ObjectKey;
use unslide_store::StoreError;
use unslide_store::segments::{self, Condemned};

/// Number of objects that are deleted in one batch.
const SWEEP_PAGE_ENTRIES: u32 = 200;
/// Number of consecutive transient failures after which object storage counts as unavailable.
const FAILURES_IN_A_ROW: u32 = 5;

impl BodyMover {
    /// Abandons the segments of dead writers, and deletes objects that have been condemned for longer than a
    /// reader takes. If one cannot be deleted, it is left for later and the others continue.
    pub(super) async fn sweep_objects(&self) -> Result<(), MoveError> {
        let now = self.store.clock().now();
        let given_up = segments::abandon_intents(&self.store, now - SEGMENT_WRITE_TIMEOUT * 2).await?;
        if given_up > 0 {
            tracing::warn!(segments = given_up, "gave up the segments of dead writers");
        }
        let grace = i64::try_from(self.settings.condemned_seconds).unwrap_or(i64::MAX);
        let before = now.saturating_sub(time::Duration::seconds(grace));
        let mut failed_in_a_row = 0;
        loop {
            let due = segments::condemned_due(&self.store, before, SWEEP_PAGE_ENTRIES).await?;
            let last = due.len() < usize::try_from(SWEEP_PAGE_ENTRIES).unwrap_or(usize::MAX);
            for condemned in due {
                match ObjectKey::parse_for_tenant(&condemned.tenant, &condemned.key) {
                    Ok(key) => match Box::pin(self.objects.delete(&key)).await {
                        Ok(()) => failed_in_a_row = 0,
                        Err(error) => {
                            tracing::warn!(key = %key, error = %error, "an object could not be deleted");
                            leave_to_other_cell(self.postpone_object(&condemned).await)?;
                            failed_in_a_row += u32::from(error.is_transient());
                            if failed_in_a_row >= FAILURES_IN_A_ROW {
                                return Err(error.into());
                            }
                            continue;
                        }
                    },
                    // The key is not one of ours, so the object is not touched.
                    Err(error) => tracing::error!(error = %error, "a condemned object has a foreign key"),
                }
                failpoint!(self, Deleted);
                leave_to_other_cell(self.forget_object(condemned).await)?;
            }
            if last || self.shutdown.is_begun() {
                return Ok(());
            }
        }
    }

    async fn postpone_object(&self, condemned: &Condemned) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(&condemned.tenant).await?;
        segments::postpone_object(&mut tx, condemned).await?;
        tx.commit().await
    }

    async fn forget_object(&self, condemned: Condemned) -> Result<(), StoreError> {
        let mut tx = self.store.tenant(&condemned.tenant).await?;
        segments::forget_objects(&mut tx, &[condemned.key]).await?;
        tx.commit().await
    }
}

/// Leaves the rest to the cell that serves a tenant that is moving.
fn leave_to_other_cell(done: Result<(), StoreError>) -> Result<(), StoreError> {
    match done {
        Err(StoreError::TenantMoving) => Ok(()),
        done => done,
    }
}
