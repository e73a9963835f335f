//! What holds for any input.

use super::{APP, BASE, Have, TEXT, app, lines, repeated};
use crate::grouping::GroupingRules;
use crate::{Context, Detail, ImageSymbols, Plan, enrich, explain_report, list_needs};
use proptest::prelude::*;
use std::collections::HashMap;
use unslide_model::{DebugId, Quality};
use unslide_report::{ReadLimits, Report as Read, splice};
use unslide_testkit::reports::{ARM64, Image, Report, random, shapes};

/// Symbols for about half of the debug ids that a report refers to, the rest in every other state.
fn some_symbols(report: &Read<'_>) -> HashMap<DebugId, ImageSymbols> {
    let states = |need: &crate::SymbolNeed| match need.debug_id.0[15] % 8 {
        0..=3 => {
            let cpu = need.cpu.unwrap_or(ARM64);
            repeated(&need.debug_id.to_string(), cpu, Quality::DwarfSymtab, 0xF_0000)
        }
        4 => ImageSymbols::Malformed,
        5 => ImageSymbols::Unsupported,
        6 => ImageSymbols::FetchingFailed,
        _ => ImageSymbols::Missing,
    };
    list_needs(report).iter().map(|need| (need.debug_id, states(need))).collect()
}

#[track_caller]
fn check(input: &[u8], what: &str) {
    let limits = ReadLimits::default();
    let report = Read::read(input, &limits).unwrap();
    let have = some_symbols(&report);
    for detail in [Detail::Full, Detail::CrashedThreadOnly, Detail::FunctionsOnly] {
        let context = Context { revision: Some(3), detail, ..Context::default() };
        let enriched = enrich(&report, &|id| have.get(id), &context);
        // This thread remembers answers, and a new one none.
        let [_, remembered] = [(); 2].map(|()| enrich(&report, &|id| have.get(id), &context));
        let fresh = std::thread::scope(|scope| {
            scope.spawn(|| enrich(&report, &|id| have.get(id), &context)).join().unwrap()
        });
        for other in [&remembered, &fresh] {
            assert_eq!(
                String::from_utf8_lossy(&other.bytes),
                String::from_utf8_lossy(&enriched.bytes),
                "{what}"
            );
            assert_eq!((&other.images, other.frames), (&enriched.images, enriched.frames), "{what}");
        }
        let again = Read::read(&enriched.bytes, &limits).unwrap();
        assert_eq!(again.strip_additions(), report.strip_additions(), "strip, {what}");
        assert_eq!(again.id, report.id, "{what}");
        assert_eq!(list_needs(&again), list_needs(&report), "{what}");
        let ours = again.ours.as_ref().unwrap();
        assert_eq!(ours.frames, enriched.frames, "{what}");
        let javascript = again.javascript_error().map_or(0, |error| error.frames.len() as u64);
        assert_eq!(ours.javascript.len() as u64, javascript);
        let native = again.backtraces.iter().map(|b| b.frame_slots().count() as u64).sum::<u64>();
        assert_eq!(ours.frames.total, native + javascript);
        assert_eq!(ours.status, enriched.status.as_str());
        assert_eq!(ours.missing, enriched.missing);
        assert_eq!(ours.images.len(), enriched.images.len());
        let twice = enrich(&again, &|id| have.get(id), &context);
        assert_eq!(
            String::from_utf8_lossy(&twice.bytes),
            String::from_utf8_lossy(&enriched.bytes),
            "idempotence, {what}"
        );
    }
    let explained = explain_report(&report, &|id| have.get(id), &GroupingRules::default(), &[]);
    let frames: usize = explained.backtraces.iter().map(|b| b.frames.len()).sum();
    let blank: usize = report.backtraces.iter().map(|b| b.blank_frames.len()).sum();
    assert_eq!(frames, Plan::new(&report).frames.len() + blank);
}

#[test]
fn every_known_shape_is_answered_and_given_back() {
    for (name, report) in shapes() {
        let bytes = report.bytes();
        if Read::read(&bytes, &ReadLimits::default()).is_ok() {
            check(&bytes, &name);
        }
    }
}

proptest! {
    #[test]
    fn random_reports_are_answered_and_given_back(seed: u64) {
        let bytes = random(seed).bytes();
        if Read::read(&bytes, &ReadLimits::default()).is_ok() {
            check(&bytes, &format!("seed {seed}"));
        }
    }

    #[test]
    fn damaged_reports_are_refused_or_answered(seed: u64, at: prop::sample::Index, byte: u8) {
        let mut bytes = random(seed).bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(report) = Read::read(&bytes, &ReadLimits::default()) {
            let enriched = enrich(&report, &|_| None, &Context::default());
            let stripped = splice::strip_additions(&enriched.bytes, &ReadLimits::default()).unwrap();
            prop_assert_eq!(stripped, report.strip_additions());
        }
    }

    #[test]
    fn no_slide_and_no_address_overflow(base: u64, vmaddr: u64, offset in 0_u64..0x2000, size: u64) {
        let image = Image::new("/app/Shop", APP, base).vmaddr(vmaddr).size(size);
        let address = base.wrapping_add(offset);
        let enriched = Have::app().enrich(&Report::standard().image(image).crashed_at([address, address]));
        prop_assert_eq!(enriched.frames.total, 2);
    }

    #[test]
    fn an_image_moved_by_any_slide_gives_the_same_answer(pages in 0x4_u64..0x4_0000_0000, offset in 0_u64..0x600) {
        // Page-aligned, as loaders place images, and low enough to need no signature bits.
        let base = pages * 0x1000;
        let offset = 0x1000 + offset / 4 * 4;
        let moved = Report::standard().image(Image::new("/app/Shop", APP, base).vmaddr(TEXT));
        let still = app();
        let have = Have::app();
        let there = have.frames(&moved.crashed_at([base + offset, base + offset]), 0);
        let here = have.frames(&still.crashed_at([BASE + offset, BASE + offset]), 0);
        prop_assert_eq!(there.iter().map(lines).collect::<Vec<_>>(), here.iter().map(lines).collect::<Vec<_>>());
        prop_assert_eq!(&there, &here);
    }
}
