//! Writing segments anew: without dead frames, and several small ones as one.

use super::sink::Sink;
use super::{Compactor, SMALL_MANY, SMALL_PART, Step, Trouble};
use bytes::Bytes;
use std::ops::Range;
use time::Date;
use unslide_artifacts::keys;
use unslide_artifacts::segment::{Frame, fetch};
use unslide_model::TenantId;
use unslide_store::Uuid;
use unslide_store::segments::{self, Held, Source};

/// Frames that are looked up at once.
const PAGE: u32 = 500;
/// Bytes of a segment that are read at once; one frame may be larger.
const RANGE_BYTES: u64 = 4 << 20;
/// Dead bytes between two frames that are read along rather than asked for anew.
const GAP_BYTES: u64 = 64 << 10;
/// How long a segment with a frame that cannot be read is left alone.
const REST: time::Duration = time::Duration::DAY;

/// What was written anew.
#[derive(Default)]
struct Written {
    /// Frames, and where each lies now.
    frames: Vec<(Held, u64)>,
    /// Segments with a frame that is gone or damaged.
    damaged: Vec<Uuid>,
}

impl Compactor {
    /// Writes some of a day's segments anew as one. True where there was something to do.
    pub(super) async fn rewrite_day(&self, tenant: &TenantId, day: Date) -> Result<bool, Trouble> {
        let mut tx = self.store.tenant(tenant).await?;
        let all = segments::sources(&mut tx, day).await?;
        let picked = pick(&all, self.settings.segment_bytes);
        let alive = segments::frames_of(&mut tx, day, &picked, None, 1).await?;
        if picked.is_empty() {
            return Ok(false);
        }
        if alive.is_empty() {
            segments::finish_rewrite(&mut tx, None, 0, &[], &picked).await?;
            tx.commit().await?;
            return Ok(true);
        }
        tx.rollback().await?;
        let Some((begun, key)) = self.begin(tenant, day).await? else { return Ok(false) };
        let written = async {
            let (sink, source) = Sink::new(self.cpu.clone(), tenant, day);
            let (written, bytes) = self.put(&key, source, self.copy(sink, tenant, day, &picked)).await?;
            let mut tx = self.store.tenant(tenant).await?;
            let finished =
                segments::finish_rewrite(&mut tx, Some(&begun), bytes, &written.frames, &picked).await?;
            let finished = finished.ok_or_else(|| Trouble::Fenced(key.clone()))?;
            segments::rest(&mut tx, &written.damaged, self.store.clock().now() + REST).await?;
            self.reach(Step::Pointed)?;
            tx.commit().await?;
            self.metrics.segment("rewritten", finished.alive, bytes);
            Ok(())
        };
        let written: Result<(), Trouble> = written.await;
        if let Err(trouble) = &written {
            self.give_up(tenant, &begun, trouble).await;
        }
        written?;
        self.reach(Step::Live)?;
        Ok(true)
    }

    /// Copies the frames that reports refer to, each checked on its way.
    async fn copy(
        &self,
        mut sink: Sink,
        tenant: &TenantId,
        day: Date,
        picked: &[Uuid],
    ) -> Result<Written, Trouble> {
        let mut written = Written::default();
        let mut after = None;
        loop {
            let mut tx = self.store.tenant(tenant).await?;
            let page = segments::frames_of(&mut tx, day, picked, after, PAGE).await?;
            tx.rollback().await?;
            let Some(last) = page.last() else { break };
            after = Some((last.place.segment, last.place.offset));
            for (range, frames) in ranges(&page) {
                let Some(first) = frames.first() else { continue };
                let key = keys::segment(tenant, day, first.place.segment);
                let length = range.end - range.start;
                let bytes = Box::pin(fetch(&self.objects, &key, range.start, length)).await?;
                let bytes = bytes.unwrap_or_default();
                let start = range.start;
                let make = move |held: &Held| cut(&bytes, start, held);
                for (held, entry) in sink.add(frames, make).await? {
                    match entry {
                        Some(entry) => written.frames.push((held, entry.offset)),
                        None => {
                            self.metrics.damaged_frames.inc();
                            tracing::error!(
                                object.key = %key,
                                report.id = %held.report_id,
                                "a stored report's frame is gone or damaged: it stays as it is"
                            );
                            written.damaged.push(held.place.segment);
                        }
                    }
                }
            }
        }
        sink.finish().await?;
        Ok(written)
    }
}

/// One frame out of a range that begins at `start`; `None` where it is not whole and sound.
fn cut(bytes: &Bytes, start: u64, held: &Held) -> Option<Frame> {
    let from = usize::try_from(held.place.offset.checked_sub(start)?).ok()?;
    let to = from.checked_add(usize::try_from(held.place.length).ok()?)?;
    if to > bytes.len() {
        return None;
    }
    let frame = Frame::read_of(bytes.slice(from..to), held.report_id, held.variant).ok()?;
    (frame.head.revision == held.revision).then_some(frame)
}

/// Frames that lie close together, with the range that has them all.
fn ranges(frames: &[Held]) -> Vec<(Range<u64>, Vec<Held>)> {
    let mut ranges: Vec<(Range<u64>, Vec<Held>)> = Vec::new();
    for held in frames {
        let end = held.place.offset.saturating_add(held.place.length);
        match ranges.last_mut() {
            Some((range, group))
                if group.last().is_some_and(|last| last.place.segment == held.place.segment)
                    && held.place.offset.saturating_sub(range.end) <= GAP_BYTES
                    && end.saturating_sub(range.start) <= RANGE_BYTES =>
            {
                range.end = range.end.max(end);
                group.push(*held);
            }
            _ => ranges.push((held.place.offset..end, vec![*held])),
        }
    }
    ranges
}

/// The segments that become one: those that are mostly dead or have a deleted report, and the small
/// ones where there are many, as far as what is alive in them fits.
fn pick(sources: &[Source], segment_bytes: u64) -> Vec<Uuid> {
    let is_small = |source: &&Source| source.bytes < segment_bytes / SMALL_PART;
    let many = sources.iter().filter(is_small).count() >= usize::try_from(SMALL_MANY).unwrap_or(usize::MAX);
    let due = |source: &&Source| {
        source.erase || source.dead_bytes.saturating_mul(2) > source.frame_bytes || many && is_small(source)
    };
    let mut bytes = 0_u64;
    let mut picked = Vec::new();
    for source in sources.iter().filter(due) {
        bytes = bytes.saturating_add(source.frame_bytes.saturating_sub(source.dead_bytes));
        if bytes > segment_bytes && !picked.is_empty() {
            break;
        }
        picked.push(source.id);
    }
    picked
}
