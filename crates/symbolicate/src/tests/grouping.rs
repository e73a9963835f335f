//! Which reports are of one bug.

use super::*;
use crate::grouping::{GroupKind, Grouping};
use unslide_testkit::reports::Json;

const SYSTEM: u64 = 0x1_9000_0000;

fn of(have: &Have, report: &Made) -> Grouping {
    have.enrich(report).grouping.expect("it says what happened")
}

/// A report whose crashed thread has these addresses, with the app at `base` and a library of the system.
fn crashed(base: u64, frames: &[u64]) -> Made {
    let report = Made::standard()
        .image(Image::new(APP_PATH, APP, base).vmaddr(TEXT).size(0x10_0000))
        .image(Image::new("/usr/lib/libobjc.A.dylib", LIBRARY, SYSTEM).size(0x1000));
    report.crashed_at(frames.iter().copied())
}

#[test]
fn one_bug_is_one_group_whatever_the_slide_the_line_and_the_callers() {
    let have = Have::app();
    let first = of(&have, &crashed(BASE, &[BASE + at::FUNCTION, BASE + at::SYMBOL]));
    assert_eq!(first.culprit.as_deref(), Some("Shop::add (cart.cpp)"));
    assert!(!first.provisional);
    let other = BASE + 0x40_0000;
    for same in [
        crashed(other, &[other + at::FUNCTION + 8, other + at::SYMBOL]),
        crashed(BASE, &[BASE + at::AFTER + 4]),
        crashed(BASE, &[SYSTEM + 0x100, BASE + at::FUNCTION + 4, BASE + at::LINE_0]),
        crashed(BASE, &[BASE + at::FUNCTION]).set("crash.error.mach.code_name", "KERN_PROTECTION_FAILURE"),
    ] {
        assert_eq!(of(&have, &same).fingerprint, first.fingerprint);
    }
    // The function that is inlined there is another one, and so is the next symbol.
    for another in [at::INLINED + 4, at::SYMBOL] {
        assert_ne!(of(&have, &crashed(BASE, &[BASE + another])).fingerprint, first.fingerprint);
    }
}

#[test]
fn without_symbols_the_group_is_provisional_and_goes_by_the_address() {
    let none = Have::default();
    let first = of(&none, &crashed(BASE, &[BASE + at::FUNCTION, BASE + at::SYMBOL]));
    assert!(first.provisional);
    // What people read has the image's name; what is compared, its debug id.
    let (culprit, label) = (first.culprit.as_deref().unwrap(), first.frames[0].function.as_str());
    assert!(culprit.contains(" + 0x") && !label.contains(' '), "{culprit} {label}");
    assert!(first.title.ends_with(&format!(" in {culprit}, symbols missing")), "{}", first.title);
    let other = BASE + 0x40_0000;
    assert_eq!(of(&none, &crashed(other, &[other + at::FUNCTION])).fingerprint, first.fingerprint);
    assert_ne!(of(&none, &crashed(BASE, &[BASE + at::FUNCTION + 4])).fingerprint, first.fingerprint);
    assert!(!of(&Have::app(), &crashed(BASE, &[BASE + at::FUNCTION])).provisional);
}

#[test]
fn a_recursion_without_end_is_one_group_whatever_its_depth() {
    let have = Have::app();
    let turn = [BASE + at::FUNCTION + 8, BASE + at::SYMBOL + 4];
    let deep = |turns: usize, leaf: &[u64]| {
        let frames: Vec<u64> = leaf.iter().copied().chain(turn.into_iter().cycle().take(2 * turns)).collect();
        of(&have, &crashed(BASE, &frames))
    };
    let first = deep(50, &[]);
    assert_eq!(first.kind, GroupKind::StackOverflow);
    assert_eq!(deep(120, &[]).fingerprint, first.fingerprint);
    // It ends in a function that the last turn has called.
    assert_eq!(deep(80, &[BASE + at::LINE_0 + 4]).fingerprint, first.fingerprint);
    assert_eq!(deep(5, &[]).kind, GroupKind::Crash);
    let frames: Vec<u64> = turn.into_iter().cycle().take(200).collect();
    let hung = crashed(BASE, &frames).set("crash.error.type", "hang");
    assert_eq!(of(&have, &hung).kind, GroupKind::Hang);
}

#[test]
fn an_exceptions_name_counts_and_its_reason_does_not() {
    let have = Have::app();
    let raised = |name: &str, reason: &str| {
        let report = crashed(BASE, &[BASE + at::FUNCTION])
            .set("crash.error.type", "nsexception")
            .set("crash.error.nsexception.name", name)
            .set("crash.error.reason", reason);
        of(&have, &report)
    };
    let first = raised("NSRangeException", "index 5 beyond bounds");
    assert_eq!(first.title, "NSRangeException: index # beyond bounds");
    assert_eq!(raised("NSRangeException", "index 7 beyond bounds"), first);
    assert_ne!(raised("NSGenericException", "index 5 beyond bounds").fingerprint, first.fingerprint);
}

#[test]
fn what_the_system_ended_is_one_group_whatever_ran() {
    let have = Have::app();
    let ended = |frames: &[u64], why: &str| {
        let report = crashed(BASE, frames).set("crash.error.type", "termination");
        of(&have, &report.set("crash.error.termination_reason", why))
    };
    let memory = ended(&[BASE + at::FUNCTION], "memory_limit");
    assert_eq!((memory.kind, memory.title.as_str()), (GroupKind::OutOfMemory, "Out of memory"));
    assert_eq!(ended(&[BASE + at::SYMBOL], "memory_pressure").fingerprint, memory.fingerprint);
    assert_ne!(ended(&[BASE + at::FUNCTION], "low_battery").fingerprint, memory.fingerprint);
}

#[test]
fn a_crash_without_frames_goes_by_what_happened() {
    let have = Have::default();
    let made = |reason: &str| {
        let report = Made::standard().set("crash.error.type", "signal").set("crash.error.mach", Json::null());
        of(&have, &report.set("crash.error.reason", reason))
    };
    assert_eq!(made("no room for 12 bytes").fingerprint, made("no room for 99 bytes").fingerprint);
    assert_ne!(made("no room").fingerprint, made("no time").fingerprint);
}

#[test]
fn the_member_is_read_back() {
    let enriched = Have::app().enrich(&crashed(BASE, &[BASE + at::FUNCTION]));
    let report = Report::read(&enriched.bytes, &ReadLimits::default()).unwrap();
    let (ours, own) = (report.ours.unwrap().grouping.unwrap(), enriched.grouping.unwrap());
    assert_eq!((ours.fingerprint, ours.provisional), (own.fingerprint, own.provisional));
    assert_eq!(
        (ours.kind.as_str(), ours.title, ours.culprit),
        (own.kind.as_str(), own.title, own.culprit.unwrap())
    );
}
