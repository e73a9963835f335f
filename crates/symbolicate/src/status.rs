//! Statuses of frames, images and reports, and their spelling in the output.

use unslide_model::words;
use unslide_report::FrameCounts;

words! {
    /// Status of a frame.
    pub enum FrameStatus {
        /// Symbols of its image answered.
        Symbolicated = "symbolicated",
        /// Only the device's own name is known.
        Device = "device",
        /// The image's symbols have no function there.
        MissingSymbol = "missing_symbol",
        /// The address lies in no image.
        UnknownImage = "unknown_image",
        /// There are no symbols for the image, or the image has no debug id.
        Missing = "missing",
        /// The symbols of the image are broken, or for another CPU.
        Malformed = "malformed",
        /// The image's symbols have a format that is not supported.
        Unsupported = "unsupported",
        /// The image's symbols exist but could not be fetched.
        FetchingFailed = "fetching_failed",
        /// The frame has no address, or one in the page at 0.
        InvalidAddress = "invalid_address",
    }
}

words! {
    /// Status of an image's symbols.
    pub enum ImageStatus {
        /// They were found.
        Found = "found",
        /// There are none, or the image has no debug id.
        Missing = "missing",
        /// They are broken, or for another CPU.
        Malformed = "malformed",
        /// Their format is not supported.
        Unsupported = "unsupported",
        /// They exist but could not be fetched.
        FetchingFailed = "fetching_failed",
    }
}

words! {
    /// Status of a report.
    pub enum ReportStatus {
        /// Every frame is symbolicated, or has the device's name in a system image.
        Complete = "complete",
        /// Some frames are symbolicated, and some should be better.
        Partial = "partial",
        /// No frame is symbolicated.
        None = "none",
    }
}

/// Counts of a report's frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameTally {
    pub(crate) counts: FrameCounts,
    /// Frames that better symbols could not improve.
    settled: u64,
}

impl FrameTally {
    pub(crate) fn add_frame(&mut self, status: FrameStatus, system_image: bool) {
        self.add_stripped(status, system_image);
        let settled = match status {
            FrameStatus::Symbolicated => true,
            FrameStatus::Device => system_image,
            _ => false,
        };
        self.settled += u64::from(settled);
    }

    /// Counts a frame answered by the symbols of a stripped binary: a dSYM would say more.
    pub(crate) fn add_stripped(&mut self, status: FrameStatus, system_image: bool) {
        let counts = &mut self.counts;
        counts.total += 1;
        let counter = match status {
            FrameStatus::Symbolicated => &mut counts.symbolicated,
            FrameStatus::Device => &mut counts.device,
            FrameStatus::MissingSymbol => &mut counts.missing_symbol,
            FrameStatus::UnknownImage => &mut counts.unknown_image,
            FrameStatus::Missing => &mut counts.missing,
            FrameStatus::Malformed => &mut counts.malformed,
            FrameStatus::Unsupported => &mut counts.unsupported,
            FrameStatus::FetchingFailed => &mut counts.fetching_failed,
            FrameStatus::InvalidAddress => &mut counts.invalid_address,
        };
        *counter += 1;
        counts.device_app += u64::from(status == FrameStatus::Device && !system_image);
    }

    pub(crate) fn report_status(&self) -> ReportStatus {
        match self.counts {
            FrameCounts { total: 0, .. } => ReportStatus::None,
            FrameCounts { total, .. } if total == self.settled => ReportStatus::Complete,
            FrameCounts { symbolicated: 0, .. } => ReportStatus::None,
            _ => ReportStatus::Partial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(frames: &[(FrameStatus, bool)]) -> FrameTally {
        let mut tally = FrameTally::default();
        frames.iter().for_each(|(status, system)| tally.add_frame(*status, *system));
        tally
    }

    fn status(frames: &[(FrameStatus, bool)]) -> ReportStatus {
        let tally = tally(frames);
        assert_eq!(tally.counts.total, frames.len() as u64);
        tally.report_status()
    }

    #[test]
    fn device_frames_of_the_app_are_counted_apart_and_stay_in_device() {
        use FrameStatus::{Device, Missing, Symbolicated};
        let frames =
            [(Device, false), (Device, true), (Device, false), (Missing, false), (Symbolicated, false)];
        let counts = tally(&frames).counts;
        assert_eq!((counts.total, counts.device, counts.device_app), (5, 3, 2));
    }

    #[test]
    fn a_report_is_complete_when_every_frame_is_or_cannot_be_better() {
        use FrameStatus::{Device, Missing, Symbolicated};
        assert_eq!(status(&[(Symbolicated, false), (Device, true)]), ReportStatus::Complete);
        assert_eq!(status(&[(Device, true)]), ReportStatus::Complete);
        assert_eq!(status(&[(Symbolicated, false), (Device, false)]), ReportStatus::Partial);
        assert_eq!(status(&[(Symbolicated, false), (Missing, true)]), ReportStatus::Partial);
        assert_eq!(status(&[(Device, false), (Missing, false)]), ReportStatus::None);
        assert_eq!(status(&[]), ReportStatus::None);
    }

    #[test]
    fn a_name_of_a_stripped_binary_leaves_something_to_be_wished_for() {
        let mut tally = tally(&[(FrameStatus::Symbolicated, false)]);
        tally.add_stripped(FrameStatus::Symbolicated, false);
        assert_eq!((tally.report_status(), tally.counts.symbolicated), (ReportStatus::Partial, 2));
    }
}
