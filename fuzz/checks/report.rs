//! Any bytes as a report: read or refused with a reason, and what is read can be shown.

use unslide_report::jetsam::{JetsamEvent, MOST_PROCESSES};
use unslide_report::{Backtrace, Element, FrameSlot, ReadLimits, Report, foreign_format, split_record, text};

pub fn check(data: &[u8]) {
    let limits = ReadLimits::default();
    if let Ok(elements) = split_record(data, &limits) {
        assert!(elements.len() <= data.len().max(1));
        let _: Vec<Element<'_>> = elements;
    }
    let _ = foreign_format(data);
    if let Ok(event) = JetsamEvent::read(data, &limits) {
        assert!(event.processes.len() <= MOST_PROCESSES && event.killed_processes().len() <= event.processes.len());
    }
    match Report::read(data, &limits) {
        Ok(report) => {
            for slot in report.backtraces.iter().flat_map(Backtrace::frame_slots) {
                let at = match slot {
                    FrameSlot::Frame(frame) => frame.insert_at,
                    FrameSlot::Blank(blank) => blank.insert_at(),
                };
                assert_eq!(data[at], b'}');
            }
            let _ = (report.summary(), text::apple_log(&report), report.evaluate_end());
        }
        Err(error) => assert!(!error.reason().is_empty()),
    }
}
