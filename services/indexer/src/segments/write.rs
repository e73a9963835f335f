//! Moves bodies of one day into a segment: the intent, the object, and the transaction that points to it.

use super::sink::SegmentSink;
use super::{BodyMover, MoveError, SEGMENT_WRITE_TIMEOUT};
use std::future::Future;
use time::Date;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::{Condition, Put};
use unslide_model::{TenantId, format_causes};
use unslide_store::segments::{self, MovedBody, SegmentIntent};

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
            failpoint!(self, Pointed);
            tx.commit().await?;
            Ok(more && finished > 0)
        };
        let written: Result<bool, MoveError> = written.await;
        if let Err(trouble) = &written {
            self.give_up(tenant, &begun, trouble).await;
        }
        let more = written?;
        failpoint!(self, Live);
        Ok(more)
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
        failpoint!(self, Intended);
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
        failpoint!(self, Put);
        Ok(filled)
    }

    /// Gives up an intent at once after a failure, instead of when it is old.
    async fn give_up(&self, tenant: &TenantId, begun: &SegmentIntent, trouble: &MoveError) {
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
