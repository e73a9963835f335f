//! The places of a backtrace's frames, without symbols.

use crate::plan::Plan;
use unslide_model::{DebugId, RelativeAddress};
use unslide_report::{Backtrace, Report};

/// The place of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocatedFrame {
    /// The debug id of its image; `None` if the address lies in no image, or in one without a debug id.
    pub debug_id: Option<DebugId>,
    /// The offset of its address from the image's start, or the address itself if it lies in no image.
    pub offset: u64,
    /// The offset that is looked up: for a return address, that of the byte before it.
    pub lookup: u64,
    /// True if the address is a program counter, and false for a return address.
    pub is_exact: bool,
}

impl Plan<'_, '_> {
    /// Returns the places of the frames of the backtrace at a position in [`Report::backtraces`], in their order.
    #[must_use]
    pub fn located_frames(&self, position: usize) -> Vec<LocatedFrame> {
        let report: &Report<'_> = self.report;
        let frames = |backtrace: &Backtrace<'_>| backtrace.frames.len();
        let before: usize = report.backtraces.iter().take(position).map(frames).sum();
        let count = report.backtraces.get(position).map_or(0, frames);
        let planned = self.frames.iter().skip(before).take(count);
        let located = planned.map(|frame| {
            let image = frame.place.and_then(|place| self.images.get(place.image as usize));
            let offset = frame.address.wrapping_sub(image.map_or(0, |image| image.start));
            let offset = if frame.choice.adjusted { offset } else { offset & !u64::from(frame.low_bits) };
            LocatedFrame {
                debug_id: image.and_then(|image| image.debug_id),
                offset,
                lookup: frame.choice.looked_up(RelativeAddress(offset)).0,
                is_exact: !frame.choice.adjusted,
            }
        });
        located.collect()
    }
}
