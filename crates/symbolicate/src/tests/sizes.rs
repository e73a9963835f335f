//! Answers stay small, whatever the symbols say.
//! Proves: bounded-input

use super::{APP, BASE, Have, app, id};
use crate::grouping::GroupingRules;
use crate::symcache::{
    CodeOwner, CodePlace, CodeScope, MAX_CALLS, NameSource, ObjectHeader, SymCache, Writer,
};
use crate::{Context, Detail, FrameStatus, ImageSymbols, Plan, enrich, explain_report, most_bytes};
use serde_json::Value;
use std::sync::Arc;
use unslide_model::Quality;
use unslide_report::{ReadLimits, Report as Read, splice};
use unslide_testkit::memory::peak;
use unslide_testkit::reports::{ARM64, Frame, Report, Style, Thread};

/// Bytes of each name and path.
const TEXT: usize = 1 << 10;
/// The addresses that each stand for a chain of [`MAX_CALLS`] calls.
const ADDRESSES: u64 = 4;

/// What a file that is made for it becomes: half a megabyte for each address.
fn longest() -> ImageSymbols {
    let mut w = Writer::new(64 << 20);
    let function = |w: &mut Writer, n: usize| {
        let path = w.add_path(&format!("/{n}{}", "p".repeat(TEXT))).unwrap();
        w.add_function(&format!("f{n}{}", "n".repeat(TEXT)), Some(path)).unwrap()
    };
    let outer = CodeOwner {
        function: function(&mut w, 0),
        start: Some(0),
        source: NameSource::Dwarf,
        approximate: false,
    };
    let mut place = CodePlace { scope: w.add_scope(CodeScope::Owner(outer)).unwrap(), line: 1, column: 1 };
    for n in 1..MAX_CALLS {
        let caller = w.add_call(place).unwrap();
        let function = function(&mut w, n);
        place.scope = w.add_scope(CodeScope::Inlined { function, caller }).unwrap();
    }
    let ranges: Vec<_> =
        (0..ADDRESSES).map(|n| (16 * n as u32, Some(CodePlace { line: 2 + n as u32, ..place }))).collect();
    let facts = ObjectHeader {
        debug_id: id(APP),
        cpu: ARM64,
        text_address: super::TEXT,
        text_size: 0x1_0000,
        extent: 0x1_0000,
        quality: Quality::DwarfSymtab,
    };
    let bytes = w.into_bytes(&facts, ranges.into_iter().collect()).unwrap();
    ImageSymbols::from_symcache(Arc::new(SymCache::parse(bytes).unwrap()))
}

fn frames(count: u64) -> impl Iterator<Item = Frame> {
    (0..count).map(|n| Frame::at(BASE + 16 * (n % ADDRESSES) + 4))
}

/// Frames of the thread that crashed and of another.
fn report() -> Report {
    let crashed = Thread::new(0).crashed().frames(frames(12));
    app().thread(crashed).thread(Thread::new(1).frames(frames(12))).style(Style::Compact)
}

fn frame(tree: &Value, thread: usize, frame: usize) -> Value {
    tree["crash"]["threads"][thread]["backtrace"]["contents"][frame]["symbolication"].clone()
}

#[test]
fn the_longest_chains_make_no_answer_larger_than_its_bound() {
    let (bytes, symbols) = (report().bytes(), longest());
    let read = Read::read(&bytes, &ReadLimits::default()).unwrap();
    let most = most_bytes(bytes.len());
    for detail in [Detail::Full, Detail::CrashedThreadOnly, Detail::FunctionsOnly] {
        let context = Context { detail, ..Context::default() };
        let (enriched, peak) = peak(|| enrich(&read, &|_| Some(&symbols), &context));
        assert!(enriched.cut && enriched.bytes.len() <= most, "{} of {most}", enriched.bytes.len());
        assert!(enriched.bytes.capacity() <= 2 * most && peak <= 3 * most, "{peak} for {most}");
        let tree: Value = serde_json::from_slice(&enriched.bytes).unwrap();
        assert_eq!(tree["symbolication"]["truncated"], true);
        assert_eq!(tree["symbolication"]["frames"]["symbolicated"], 24);
        assert_eq!(frame(&tree, 1, 11), serde_json::json!({"status": FrameStatus::Symbolicated.as_str()}));
        assert_eq!(splice::strip_additions(&enriched.bytes, &ReadLimits::default()).unwrap(), bytes);
    }
}

#[test]
fn frames_are_answered_as_far_as_there_is_room() {
    let have = Have::default().and(APP, longest());
    let of = |count, max_bytes| {
        let report = app().thread(Thread::new(0).crashed().frames(frames(count))).style(Style::Compact);
        let context =
            Context { most_bytes: Some(max_bytes), detail: Detail::FunctionsOnly, ..Context::default() };
        let bytes = report.bytes();
        assert!(most_bytes(bytes.len()) >= max_bytes);
        let enriched = have.enrich_with(&bytes, &context);
        assert!(enriched.bytes.len() <= max_bytes.max(bytes.len() + 4_096), "{}", enriched.bytes.len());
        let tree: Value = serde_json::from_slice(&enriched.bytes).unwrap();
        let calls = (0..count as usize).filter(|at| !frame(&tree, 0, *at)["calls"].is_null()).count();
        (calls, enriched.cut, tree["symbolication"]["truncated"] == true)
    };
    // The names of one frame, and those of an address that was answered before again.
    let each = MAX_CALLS * (TEXT + 24);
    assert_eq!(of(1, each + 20_000), (1, false, true));
    assert_eq!(of(1, each - 20_000), (0, true, true));
    assert_eq!(of(8, 0), (0, true, true));
}

#[test]
fn the_answer_has_the_most_detail_that_there_is_room_for() {
    let symbols = longest();
    let other = app().thread(Thread::new(0).crashed().frames([Frame::at(0x70)]));
    let bytes = other.thread(Thread::new(1).frames(frames(4))).bytes();
    let read = Read::read(&bytes, &ReadLimits::default()).unwrap();
    let enriched = Plan::new(&read).enrich_within(&|_| Some(&symbols), &Context::default());
    let tree: Value = serde_json::from_slice(&enriched.bytes).unwrap();
    // Without its calls the other thread has room.
    assert!(!enriched.cut && tree["symbolication"]["truncated"] == true);
    assert_eq!(frame(&tree, 1, 3)["source"], "dwarf");
}

#[test]
fn an_answer_that_does_not_fit_has_less_detail_down_to_the_least() {
    let crashed = app().thread(Thread::new(0).crashed().frames([Frame::at(0x70)]));
    let bytes = crashed.thread(Thread::new(1).frames(frames(1))).bytes();
    let read = Read::read(&bytes, &ReadLimits::default()).unwrap();
    let (plan, symbols) = (Plan::new(&read), longest());
    let sizes = std::cell::RefCell::new(Vec::new());
    let context = Context::default();
    let least = plan.enrich_fitting(&|_| Some(&symbols), &context, |bytes| {
        sizes.borrow_mut().push(bytes);
        false
    });
    let sizes = sizes.into_inner();
    assert_eq!(sizes.len(), 2, "the least is what it is");
    assert!(least.bytes.len() <= sizes[1] && sizes[1] <= sizes[0] && least.bytes.len() < sizes[0]);
    let middle = plan.enrich_fitting(&|_| Some(&symbols), &context, |bytes| bytes <= sizes[1]);
    assert_eq!(middle.bytes.len(), sizes[1]);
}

#[test]
fn what_was_added_before_gives_no_further_room() {
    let (bytes, symbols) = (report().bytes(), longest());
    let mut enriched = bytes.clone();
    for _ in 0..3 {
        let read = Read::read(&enriched, &ReadLimits::default()).unwrap();
        enriched = enrich(&read, &|_| Some(&symbols), &Context::default()).bytes;
    }
    assert!(enriched.len() <= most_bytes(bytes.len()));
}

#[test]
fn an_explanation_of_the_longest_chains_is_bounded() {
    let (bytes, symbols) = (report().bytes(), longest());
    let read = Read::read(&bytes, &ReadLimits::default()).unwrap();
    let (json, most) = peak(|| {
        serde_json::to_vec(&explain_report(&read, &|_| Some(&symbols), &GroupingRules::default(), &[]))
            .unwrap()
    });
    assert!(json.len() < 8 << 20 && most < 24 << 20, "{} {most}", json.len());
    let tree: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(tree["truncated"], true);
    let frames = tree["backtraces"][1]["frames"].as_array().unwrap();
    assert_eq!(
        (frames.len(), &frames[11]["status"], &frames[11]["calls"]),
        (12, &"symbolicated".into(), &Value::Null)
    );
    // So are its frames.
    let many = app().thread(Thread::new(0).crashed().frames(frames_of_no_image(30_000))).bytes();
    let read = Read::read(&many, &ReadLimits::default()).unwrap();
    let explained = explain_report(&read, &|_| None, &GroupingRules::default(), &[]);
    assert!(explained.truncated && explained.backtraces[0].frames.len() == 20_000);
}

fn frames_of_no_image(count: u64) -> impl Iterator<Item = Frame> {
    (0..count).map(|n| Frame::at(0x7000_0000 + n))
}
