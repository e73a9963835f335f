//! Logs that no device writes.

use crate::{body, header, log_of, readers};
use proptest::prelude::*;
use unslide_report::{Backtrace, FrameSlot, ReadLimits, Report};
use unslide_symbolicate::{Context, Plan};

/// Reads a log, and checks that its answers go to as many places as it has frames and come off again.
fn check(log: &[u8]) {
    let limits = ReadLimits { max_bytes: 1 << 20, max_items: 2_000, ..ReadLimits::default() };
    let readers = readers();
    let Ok(Some(translated)) = readers.translate(log, &limits) else { return };
    let report = Report::read(&translated.json, &limits).unwrap();
    let slots = report.backtraces.iter().flat_map(Backtrace::frame_slots).count();
    assert_eq!(slots, translated.frames.len());
    let enriched = Plan::new(&report).enrich(&|_| None, &Context::default());
    let written = translated.write(log, &enriched.bytes).unwrap();
    let again = readers.translate(&written, &ReadLimits::default()).unwrap().unwrap();
    assert_eq!(&*again.stripped(&written), &*translated.stripped(log));
    let again = Report::read_stored(&again.json).unwrap();
    assert!(again.ours.is_some());
    let has_answer = |slot: FrameSlot<'_, '_>| match slot {
        FrameSlot::Frame(frame) => frame.own_member.is_some(),
        FrameSlot::Blank(blank) => blank.own_member().is_some(),
    };
    let answers =
        again.backtraces.iter().flat_map(Backtrace::frame_slots).filter(|slot| has_answer(*slot)).count();
    assert_eq!(answers, translated.frames.iter().flatten().count());
}

#[test]
fn a_cut_log_is_refused_everywhere() {
    let log = log_of(&body());
    for end in (0..log.len()).step_by(7) {
        check(&log[..end]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Proves: bounded-input
    #[test]
    fn changed_logs_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..6),
        is_enriched: bool,
    ) {
        let mut log = log_of(&body());
        if is_enriched {
            log = crate::enriched(&log).1;
        }
        for (at, byte, kind) in changes {
            let at = at.index(log.len());
            match kind {
                0 => log[at] = byte,
                1 => log.insert(at, b"{}[],:\"\\ 0-e.tn\n\0"[usize::from(byte) % 17]),
                2 => { log.remove(at); }
                _ => {
                    let end = (at + usize::from(byte)).min(log.len());
                    let copy = log[at..end].to_vec();
                    log.splice(at..at, copy);
                }
            }
        }
        check(&log);
    }

    #[test]
    fn any_members_are_read_or_refused(text in "[\\[\\]{}\",:a-z0-9.-]{0,200}") {
        check(format!("{}\n{{\"threads\":{text},\"usedImages\":[]}}", header()).as_bytes());
        check(format!("{}\n{{\"threads\":[{{\"frames\":[{{{text}}}]}}],\"usedImages\":[{text}]}}", header()).as_bytes());
    }
}
