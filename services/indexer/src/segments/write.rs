//! Moves a day's bodies into a segment.

use super::sink::SegmentSink;
use super::{BodyMover, MoveError, MoveStep};
use time::Date;
use unslide_model::TenantId;
use unslide_store::segments::{self, MovedBody};

/// Bytes of bodies that are read at once; one body may be larger.
const PAGE_BYTES: u64 = 8 << 20;
/// Maximum number of frames of one segment, which limits the transaction that points to them.
const MOST_FRAMES: usize = 10_000;

impl BodyMover {
    /// Moves bodies of a tenant and day into one segment. Returns true if more may wait.
    pub(super) async fn move_day(&self, tenant: &TenantId, day: Date) -> Result<bool, MoveError> {
        let Some((begun, key)) = self.begin_segment(tenant, day).await? else { return Ok(false) };
        let written = async {
            let (sink, source) = SegmentSink::new(self.cpu.clone(), tenant.clone());
            let (moved, more) = self.put_segment(&key, source, self.fill_segment(sink, tenant, day)).await?;
            let mut tx = self.store.tenant(tenant).await?;
            let finished = segments::finish_segment(&mut tx, &begun, &moved).await?;
            let finished = finished.ok_or_else(|| MoveError::Fenced(key.clone()))?;
            self.reach(MoveStep::Pointed)?;
            tx.commit().await?;
            Ok(more && finished > 0)
        };
        let written: Result<bool, MoveError> = written.await;
        if let Err(trouble) = &written {
            self.give_up(tenant, &begun, trouble).await;
        }
        let more = written?;
        self.reach(MoveStep::Live)?;
        Ok(more)
    }

    /// Fills a segment with bodies. Returns the position of each, and whether more may wait.
    async fn fill_segment(
        &self,
        mut sink: SegmentSink,
        tenant: &TenantId,
        day: Date,
    ) -> Result<(Vec<MovedBody>, bool), MoveError> {
        let mut moved: Vec<MovedBody> = Vec::new();
        let (mut after, mut more) = (None, true);
        while sink.bytes < self.settings.segment_bytes && moved.len() < MOST_FRAMES {
            let mut tx = self.store.tenant(tenant).await?;
            let page = segments::list_pending_bodies(&mut tx, day, after, PAGE_BYTES).await?;
            tx.rollback().await?;
            let Some(last) = page.last() else {
                more = false;
                break;
            };
            after = Some((last.received_at, last.report_id, last.variant));
            moved.extend(sink.add_bodies(page).await?);
        }
        sink.finish_segment().await?;
        Ok((moved, more))
    }
}
