//! Deleting what is condemned.

use super::{Compactor, PATIENCE, Step, Trouble};
use unslide_artifacts::keys::Key;
use unslide_store::segments;

/// Objects that are deleted in one go.
const PAGE: u32 = 200;

impl Compactor {
    /// Gives up what dead writers have left, counts the frames that have died, and deletes objects
    /// that have been condemned for longer than anybody reads.
    pub(super) async fn sweep(&self) -> Result<(), Trouble> {
        let now = self.store.clock().now();
        let given_up = segments::abandon(&self.store, now - PATIENCE * 2).await?;
        if given_up > 0 {
            tracing::warn!(segments = given_up, "gave up segments whose writers have died");
        }
        segments::count_dead(&self.store, self.settings.erase_seconds).await?;
        let grace = i64::try_from(self.settings.condemned_seconds).unwrap_or(i64::MAX);
        let before = now.saturating_sub(time::Duration::seconds(grace));
        loop {
            let due = segments::condemned_due(&self.store, before, PAGE).await?;
            let last = due.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            for condemned in due {
                match Key::of_tenant(&condemned.tenant, &condemned.key) {
                    Ok(key) => Box::pin(self.objects.delete(&key)).await?,
                    // Nothing of ours: what it names is not touched.
                    Err(error) => tracing::error!(error = %error, "a condemned object has a foreign key"),
                }
                self.reach(Step::Deleted)?;
                let mut tx = self.store.tenant(&condemned.tenant).await?;
                segments::forget(&mut tx, &[condemned.key]).await?;
                tx.commit().await?;
                self.metrics.objects_deleted.inc();
            }
            if last || self.shutdown.is_begun() {
                return Ok(());
            }
        }
    }
}
