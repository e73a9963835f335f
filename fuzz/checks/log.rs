//! Any bytes as a log of Apple's: read or refused with a reason, and answers come off again.

use unslide_apple_reports_formats::READERS;
use unslide_report::reader::ReportReaders;
use unslide_report::{Backtrace, ReadLimits, Report};
use unslide_symbolicate::{Context, Plan};

pub fn check(data: &[u8]) {
    let limits = ReadLimits { max_bytes: 1 << 20, max_items: 10_000, ..ReadLimits::default() };
    let readers = ReportReaders::new(READERS.iter().copied());
    for part in readers.split_document(data, &limits).unwrap_or_default() {
        assert!(readers.split_document(&part, &limits).is_none(), "a part is one report");
        check_document(&readers, &part, &limits);
    }
    let _ = readers.split_record(data, &limits);
    check_document(&readers, data, &limits);
}

fn check_document(readers: &ReportReaders, data: &[u8], limits: &ReadLimits) {
    let translated = match readers.translate(data, limits) {
        Ok(Some(translated)) => translated,
        Ok(None) => return,
        Err(error) => {
            assert!(!error.reason().is_empty() && !error.to_string().is_empty());
            return;
        }
    };
    let report = Report::read(&translated.json, &ReadLimits::default()).expect("a translated report");
    let frames = report.backtraces.iter().flat_map(Backtrace::frame_slots).count();
    assert_eq!(frames, translated.frames.len(), "a place for each frame");
    let enriched = Plan::new(&report).enrich(&|_| None, &Context::default());
    let written = translated.write(data, &enriched.bytes).expect("an enriched document");
    let stored = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
    let again = readers.translate(&written, &stored).expect("a document").expect("of the same format");
    assert_eq!(&*again.stripped(&written), &*translated.stripped(data), "without our members");
    assert!(Report::read_stored(&again.json).expect("a report").ours.is_some());
}
