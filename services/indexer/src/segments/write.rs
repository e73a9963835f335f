//! Moving a day's bodies into a segment.

use super::sink::Sink;
use super::{Compactor, Step, Trouble};
use time::Date;
use unslide_artifacts::segment::{Codec, Frame, FrameHead, MAX_BODY_BYTES};
use unslide_model::TenantId;
use unslide_store::segments::{self, Moved, Waiting};

/// Bytes of bodies that are read at once; one may be larger.
const PAGE_BYTES: u64 = 8 << 20;
/// Frames of one segment, whatever their size: the transaction that points to them is no longer.
const MOST_FRAMES: usize = 10_000;

impl Compactor {
    /// Moves bodies of a tenant and day into one segment. True where more may wait.
    pub(super) async fn move_day(&self, tenant: &TenantId, day: Date) -> Result<bool, Trouble> {
        let Some((begun, key)) = self.begin(tenant, day).await? else { return Ok(false) };
        let written = async {
            let (sink, source) = Sink::new(self.cpu.clone(), tenant, day);
            let ((moved, more), bytes) = self.put(&key, source, self.fill(sink, tenant, day)).await?;
            let mut tx = self.store.tenant(tenant).await?;
            let finished = segments::finish(&mut tx, &begun, bytes, &moved).await?;
            let finished = finished.ok_or_else(|| Trouble::Fenced(key.clone()))?;
            self.reach(Step::Pointed)?;
            tx.commit().await?;
            self.metrics.segment("moved", finished.alive, bytes);
            Ok(more && finished.alive > 0)
        };
        let written: Result<bool, Trouble> = written.await;
        if let Err(trouble) = &written {
            self.give_up(tenant, &begun, trouble).await;
        }
        let more = written?;
        self.reach(Step::Live)?;
        Ok(more)
    }

    /// Fills a segment with bodies. Gives where each went, and whether more may wait.
    async fn fill(
        &self,
        mut sink: Sink,
        tenant: &TenantId,
        day: Date,
    ) -> Result<(Vec<Moved>, bool), Trouble> {
        let mut moved: Vec<Moved> = Vec::new();
        let (mut after, mut more) = (None, true);
        while sink.bytes() < self.settings.segment_bytes && sink.frames() < MOST_FRAMES {
            let mut tx = self.store.tenant(tenant).await?;
            let page = segments::page(&mut tx, day, after, PAGE_BYTES).await?;
            tx.rollback().await?;
            let Some(last) = page.last() else {
                more = false;
                break;
            };
            after = Some((last.received_at, last.report_id, last.variant));
            let placed = sink.add(page, frame).await?;
            moved.extend(placed.into_iter().filter_map(|(waiting, entry)| {
                let entry = entry?;
                Some(Moved {
                    received_at: waiting.received_at,
                    report_id: waiting.report_id,
                    variant: waiting.variant,
                    revision: waiting.revision,
                    offset: entry.offset,
                    length: entry.length,
                })
            }));
        }
        sink.finish().await?;
        Ok((moved, more))
    }
}

/// A body as a frame. One that is larger than readers take stays where it is; one that is damaged goes
/// along as it is, so that it does not come up again and again: readers find out either way.
fn frame(waiting: &Waiting) -> Option<Frame> {
    let head = FrameHead {
        report_id: waiting.report_id,
        variant: waiting.variant,
        revision: waiting.revision,
        received_at_micros: micros(waiting.received_at),
        size: waiting.size,
        codec: Codec::Lz4,
    };
    if usize::try_from(waiting.size).ok().is_none_or(|size| size > MAX_BODY_BYTES) {
        return None;
    }
    Some(match unslide_proto::body::decompress(&waiting.body, MAX_BODY_BYTES) {
        Ok(json) => Frame::compress(head, &json),
        Err(_) => Frame { head, payload: waiting.body.clone().into() },
    })
}

fn micros(at: time::OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}
