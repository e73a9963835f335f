//! Members put into the frames of any report and taken out again leave the report as it was.

use unslide_report::splice::{member_key, strip_additions};
use unslide_report::{Backtrace, ENGINE_PREFIX, FrameSlot, ReadLimits, Report};
use unslide_testkit::splice;

pub fn check(data: &[u8]) {
    let limits = ReadLimits::default();
    let Ok(report) = Report::read(data, &limits) else { return };
    // One that has members of ours already is taken as another's, and left alone.
    if report.ours.is_some() || report.strip_additions() != data {
        return;
    }
    let mut insertions: Vec<(usize, Vec<u8>)> = Vec::new();
    for slot in report.backtraces.iter().flat_map(Backtrace::frame_slots) {
        let (at, has_members) = match slot {
            FrameSlot::Frame(frame) => (frame.insert_at, frame.has_members),
            FrameSlot::Blank(blank) => (blank.insert_at(), blank.has_members()),
        };
        insertions.push((at, [member_key(has_members), b"{\"status\":\"missing\"}"].concat()));
    }
    let ours = format!("{{\"version\":1,\"engine\":\"{ENGINE_PREFIX}0.0.0\"}}");
    insertions.push((report.insert_at, [member_key(report.has_members), ours.as_bytes()].concat()));
    insertions.sort_by_key(|(at, _)| *at);
    let mut enriched = Vec::new();
    splice(data, insertions, &mut enriched);
    assert_eq!(strip_additions(&enriched, &limits).expect("still a report"), data);
}
