//! Any bytes as a report: read or refused with a reason, and what is read can be shown.

use unslide_report::{Element, ReadLimits, Report, split, text};

pub fn check(data: &[u8]) {
    let limits = ReadLimits::default();
    if let Ok(elements) = split(data, &limits) {
        assert!(elements.len() <= data.len().max(1));
        let _: Vec<Element<'_>> = elements;
    }
    match Report::read(data, &limits) {
        Ok(report) => {
            for frame in report.backtraces.iter().flat_map(|backtrace| &backtrace.frames) {
                assert_eq!(data[frame.insert_at], b'}');
            }
            let _ = (report.summary(), text::apple_log(&report));
        }
        Err(error) => assert!(!error.reason().is_empty()),
    }
}
