//! Counts of the frames in the app's own code. Only the app's team can complete these.

use super::frame::OurFrame;
use crate::report::Report;
use std::collections::HashMap;

/// Counts of frames in the app's own images, and in its own JavaScript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFrames {
    /// Frames that symbols can name.
    pub total: u64,
    /// Frames that uploaded symbols named. Those of a stripped binary do not count: a dSYM would say more.
    pub symbolicated: u64,
}

impl OwnFrames {
    fn add_frame(&mut self, symbolicated: bool) {
        self.total += 1;
        self.symbolicated += u64::from(symbolicated);
    }
}

impl Report<'_> {
    /// Counts the app's own frames in all backtraces of an enriched report.
    #[must_use]
    pub fn count_own_frames(&self) -> OwnFrames {
        let mut counts = OwnFrames::default();
        let Some(ours) = &self.ours else { return counts };
        let images: HashMap<_, _> =
            ours.images.iter().filter_map(|image| Some((image.debug_id?, image))).collect();
        for frame in self.backtraces.iter().flat_map(|backtrace| &backtrace.frames) {
            let Some(own) = self.our_frame(frame).filter(OurFrame::is_in_image) else { continue };
            let image = own.debug_id.and_then(|id| images.get(&id));
            // The symbols have no function there, so that no upload can name it.
            if image.is_some_and(|image| image.system) || own.has_status("missing_symbol") {
                continue;
            }
            counts.add_frame(own.has_status("symbolicated") && image.is_none_or(|image| !image.stripped));
        }
        for frame in ours.javascript.iter().filter(|frame| frame.in_app || frame.status == "missing") {
            counts.add_frame(frame.status == "symbolicated");
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::OwnFrames;
    use crate::{ReadLimits, Report};

    fn count_own(frames: &str) -> OwnFrames {
        let json = format!(
            r#"{{"crash":{{"error":{{"type":"mach"}},"threads":[{{"crashed":true,"backtrace":{{"contents":[{frames}]}}}}]}},
            "symbolication":{{"version":1,"engine":"unslide/0.1.0","status":"partial","images":[
                {{"debug_id":"11111111-1111-1111-1111-111111111111","status":"found"}},
                {{"debug_id":"22222222-2222-2222-2222-222222222222","status":"missing","system":true}},
                {{"debug_id":"33333333-3333-3333-3333-333333333333","status":"found","stripped":true}}]}}}}"#
        );
        Report::read(json.as_bytes(), &ReadLimits::default()).unwrap().count_own_frames()
    }

    fn frame(status: &str, image: char) -> String {
        let id = [8, 4, 4, 4, 12].map(|digits| image.to_string().repeat(digits)).join("-");
        format!(r#"{{"instruction_addr":1,"symbolication":{{"status":"{status}","debug_id":"{id}"}}}}"#)
    }

    #[test]
    fn frames_of_the_system_do_not_count() {
        let frames = [frame("symbolicated", '1'), frame("missing", '2'), frame("device", '2')].join(",");
        assert_eq!(count_own(&frames), OwnFrames { total: 1, symbolicated: 1 });
    }

    #[test]
    fn a_stripped_binary_and_a_missing_dsym_leave_frames_to_complete() {
        let frames =
            [frame("symbolicated", '3'), frame("device", '1'), frame("missing_symbol", '1')].join(",");
        assert_eq!(count_own(&frames), OwnFrames { total: 2, symbolicated: 0 });
        let unknown = r#"{"instruction_addr":1,"symbolication":{"status":"unknown_image"}}"#;
        assert_eq!(count_own(unknown), OwnFrames::default());
    }
}
