//! Which reports are of one bug.

use super::*;
use crate::grouping::{GroupKind, Grouping, GroupingRules, GroupingVerdict, regroup_report};
use crate::symcache::NoReturn;
use crate::{Detail, explain_report};
use serde_json::json;
use unslide_testkit::reports::Json;

const SYSTEM: u64 = 0x1_9000_0000;
/// The stack pointer of [`crashed`].
const STACK: u64 = 0x1_6fdf_e000;

fn of(have: &Have, report: &Made) -> Grouping {
    have.enrich(report).grouping.expect("it says what happened")
}

/// A report with a crashed thread at these addresses, with the app at `base` and a library of the system.
fn crashed(base: u64, frames: &[u64]) -> Made {
    let report = Made::standard()
        .image(Image::new(APP_PATH, APP, base).vmaddr(TEXT).size(0x10_0000))
        .image(Image::new("/usr/lib/libobjc.A.dylib", LIBRARY, SYSTEM).size(0x1000));
    report.crashed_at(frames.iter().copied())
}

/// The same with this address of the error.
fn failed_at(address: u64, frames: &[u64]) -> Made {
    crashed(BASE, frames).set("crash.error.address", address)
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
        of(&have, &failed_at(STACK - 16, &frames))
    };
    let first = deep(50, &[]);
    assert_eq!(first.kind, GroupKind::StackOverflow);
    assert_eq!(deep(120, &[]).fingerprint, first.fingerprint);
    // It ends in a function that the last turn has called.
    assert_eq!(deep(80, &[BASE + at::LINE_0 + 4]).fingerprint, first.fingerprint);
    assert_eq!(deep(5, &[]).kind, GroupKind::Crash);
    let frames: Vec<u64> = turn.into_iter().cycle().take(200).collect();
    let hung = failed_at(STACK, &frames).set("crash.error.type", "hang");
    assert_eq!(of(&have, &hung).kind, GroupKind::Hang);
}

#[test]
fn a_bad_access_far_from_the_stack_pointer_is_no_stack_overflow() {
    let have = Have::app();
    let turn = [BASE + at::FUNCTION + 8, BASE + at::SYMBOL + 4];
    let deep: Vec<u64> = turn.into_iter().cycle().take(120).collect();
    for near in [STACK - 8, STACK, STACK + 0x4000, STACK - 0x2_0000] {
        assert_eq!(of(&have, &failed_at(near, &deep)).kind, GroupKind::StackOverflow);
    }
    for far in [0, 0x10, STACK - 0x100_0000, STACK + 0x100_0000] {
        assert_eq!(of(&have, &failed_at(far, &deep)).kind, GroupKind::Crash);
    }
    // Near it, but the stack has room: few frames, or many functions.
    assert_eq!(of(&have, &failed_at(STACK, &deep[..40])).kind, GroupKind::Crash);
    let many: Vec<u64> = (0..120).map(|n| BASE + at::FUNCTION + 4 * (n % 60)).collect();
    assert_eq!(of(&have, &failed_at(STACK, &many)).kind, GroupKind::Crash);
}

#[test]
fn a_walk_through_a_tree_is_one_group_whatever_its_way_and_depth() {
    // Two calls in one function, one in another; the way through them repeats nothing.
    let calls = [BASE + at::FUNCTION + 8, BASE + at::AFTER + 4, BASE + at::SYMBOL + 4];
    let way = |seed: u64, depth: usize| {
        let mut state = seed;
        let steps = std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            calls[(state >> 33) as usize % 3]
        });
        steps.take(depth).collect::<Vec<u64>>()
    };
    let have = Have::app();
    let grouped = |frames: &[u64]| {
        let enriched = have.enrich(&failed_at(STACK - 16, frames));
        let grouping = enriched.grouping.unwrap();
        assert_eq!(again(&enriched.bytes), grouping);
        (grouping.kind, grouping.fingerprint, grouping.title)
    };
    let first = grouped(&way(1, 100));
    assert_eq!((first.0, first.2.as_str()), (GroupKind::StackOverflow, "Stack overflow in Shop::add"));
    assert_eq!(grouped(&way(2, 500)), first);
    assert_eq!(grouped(&[vec![BASE + at::LINE_0 + 4], way(3, 200)].concat()), first);
    // A recursion that goes one way through the same functions is the same bug.
    let turn: Vec<u64> = [calls[0], calls[2]].repeat(60);
    assert_eq!(grouped(&turn), first);
    // Without the stack pointer nothing tells it from a deep call, but for turns that are the same.
    let kind = |frames: &[u64]| {
        let report = failed_at(STACK, frames).without("crash.threads.0.registers.basic.sp");
        of(&have, &report).kind
    };
    assert_eq!((kind(&way(1, 100)), kind(&turn)), (GroupKind::Crash, GroupKind::StackOverflow));
}

#[test]
fn frames_that_a_log_leaves_out_belong_to_the_recursion() {
    let have = Have::app();
    let turn = [BASE + at::FUNCTION + 8, BASE + at::SYMBOL + 4];
    let listed = |frames: usize, left_out: u64| {
        let frames: Vec<u64> = turn.into_iter().cycle().take(frames).collect();
        of(&have, &failed_at(STACK - 16, &frames).set("crash.threads.0.left_out_frames", left_out))
    };
    let whole = listed(120, 0);
    assert_eq!(whole.kind, GroupKind::StackOverflow);
    for (frames, left_out) in [(45, 43_951), (20, 900), (40, 20)] {
        assert_eq!(listed(frames, left_out).fingerprint, whole.fingerprint, "{frames} {left_out}");
    }
    // Too few altogether, and too few to see a turn.
    assert_eq!(listed(20, 10).kind, GroupKind::Crash);
    assert_eq!(listed(6, 900).kind, GroupKind::Crash);
}

/// Proves that the culprit is the innermost of the functions that count, which are the outermost ones of the stack.
#[test]
fn a_hang_is_named_by_the_inner_one_of_the_functions_that_count() {
    let functions = [("draw", None), ("parse", None), ("submit", None), ("main", None)];
    let have = app_of(&functions, NameSource::Dwarf);
    let hung = |callers: &[u64]| {
        let enriched = have.enrich(&ended_by("mach_msg_trap", callers).set("crash.error.type", "hang"));
        let grouping = enriched.grouping.unwrap();
        assert_eq!(again(&enriched.bytes), grouping);
        grouping
    };
    let first = hung(&[1, 2, 3]);
    assert_eq!((first.title.as_str(), first.culprit.as_deref()), ("Hang in parse", Some("parse (cart.cpp)")));
    let counted: Vec<_> = first.frames.iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!(counted, ["submit", "parse"]);
    // The functions inside of it change from sample to sample, and neither the group nor its title does.
    let inside = hung(&[0, 1, 2, 3]);
    assert_eq!((inside.fingerprint, &inside.title), (first.fingerprint, &first.title));
    assert_eq!(hung(&[2, 3]).title, "Hang in submit");
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
fn what_an_image_says_is_in_the_title_and_counts_only_where_no_function_does() {
    let stopped = |frames: &[u64], message: &str| {
        let report = crashed(BASE, frames).set("binary_images.1.crash_info_message", message);
        let report = report.set("crash.error.mach.exception_name", "EXC_BREAKPOINT");
        of(&Have::app(), &report.set("crash.error.signal.name", "SIGTRAP"))
    };
    let frames = [BASE + at::FUNCTION];
    let first = stopped(&frames, "Shop/Cart.swift:12: Fatal error: no price for item 5");
    assert_eq!(first.title, "Fatal error: no price for item # in Shop::add");
    assert_eq!(stopped(&frames, "Shop/Cart.swift:13: Fatal error: no price for item 6"), first);
    let other = stopped(&frames, "Assertion failed: (price > 0)");
    assert_eq!((other.fingerprint, other.culprit), (first.fingerprint, first.culprit));
    assert_eq!(other.title, "Assertion failed: (price > #) in Shop::add");
    // Nothing says where.
    let (price, room) = (stopped(&[], "no price 1"), stopped(&[], "no room 1"));
    assert_eq!(stopped(&[], "no price 2").fingerprint, price.fingerprint);
    assert_ne!(room.fingerprint, price.fingerprint);
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

/// A report with a crashed thread in functions of the system only, as the device names them.
fn named_by_device(names: &[&str]) -> Made {
    let frame = |(n, name): (usize, &&str)| {
        let start = SYSTEM + at::FUNCTION + 0x200 * n as u64;
        Frame::at(start + 4).symbol(name, start)
    };
    Made::standard()
        .image(Image::new("/usr/lib/libc++abi.dylib", LIBRARY, SYSTEM).size(0x10_0000))
        .crashed_thread(Thread::new(0).crashed().frames(names.iter().enumerate().map(frame)))
}

fn again(bytes: &[u8]) -> Grouping {
    let stored = Report::read_stored(bytes).unwrap();
    regroup_report(&stored, &GroupingRules::default()).unwrap().unwrap()
}

#[test]
fn the_devices_names_of_the_system_are_compared_readable() {
    let ended = |by: &str| {
        let terminate =
            ["_ZL28demangling_terminate_handlerv", "_ZL15_objc_terminatev", "_ZSt11__terminatePFvvE"];
        let names: Vec<&str> = ["abort", "abort_message"].into_iter().chain(terminate).chain([by]).collect();
        let enriched = Have::default().enrich(&named_by_device(&names));
        let grouping = enriched.grouping.unwrap();
        assert_eq!(again(&enriched.bytes), grouping);
        grouping
    };
    let first = ended("CFRunLoopRunSpecific");
    assert_eq!(first.culprit.as_deref(), Some("CFRunLoopRunSpecific"));
    assert!(first.title.ends_with(" in CFRunLoopRunSpecific"), "{}", first.title);
    assert_ne!(ended("nw_queue_context_target_dispatch_event").fingerprint, first.fingerprint);
    // Symbols that come later name the same function.
    let report = named_by_device(&["_ZN4Shop3addEi"]);
    let symbols = Have::default().and(LIBRARY, symbols(LIBRARY, ARM64, Quality::DwarfSymtab));
    assert_eq!(of(&symbols, &report).fingerprint, of(&Have::default(), &report).fingerprint);
    // A library of Rust, and a namespace of C++.
    let names = ["_ZN4core9panicking5panic17h2d55b0580eae69efE", "_ZN4core5Cache3getEv"];
    let enriched = Have::default().enrich(&named_by_device(&names));
    let grouping = enriched.grouping.unwrap();
    assert_eq!(grouping.culprit.as_deref(), Some("core::Cache::get"));
    assert_eq!(again(&enriched.bytes), grouping);
}

#[test]
fn a_trap_of_swift_says_what_happened() {
    let trap = "Swift runtime failure: arithmetic overflow";
    let trapped = |frames: &[&str]| of(&Have::default(), &named_by_device(frames));
    let first = trapped(&[trap, "_ZN4Shop3addEi"]);
    assert_eq!(first.title, "Arithmetic overflow in Shop::add");
    assert_eq!(first.fingerprint, trapped(&["_ZN4Shop3addEi"]).fingerprint);
}

#[test]
fn names_of_other_threads_cost_the_crashed_one_nothing() {
    // Together they are more than the names of a report may cost.
    let names: Vec<String> = (0..200).map(|n| format!("_ZN{}fEv{n}", "a".repeat(4_000))).collect();
    let other = names.iter().map(|name| Frame::at(SYSTEM + 0x104).symbol(name, SYSTEM + 0x100));
    let report = Made::standard()
        .image(Image::new("/usr/lib/libc++abi.dylib", LIBRARY, SYSTEM).size(0x10_0000))
        .thread(Thread::new(0).frames(other));
    let last = Frame::at(SYSTEM + 0x204).symbol("_ZN4Shop3addEi", SYSTEM + 0x200);
    let report = report.thread(Thread::new(1).crashed().frames([last]));
    let enriched = Have::default().enrich(&report);
    let grouping = enriched.grouping.unwrap();
    assert_eq!(grouping.culprit.as_deref(), Some("Shop::add"));
    assert_eq!(again(&enriched.bytes), grouping);
}

/// A report of an end, with what was sampled before it.
fn ended(crash_type: &str, address: u64) -> Made {
    let frame = || Json::object([("instruction_addr", Json::from(address))]);
    let stack = || Json::object([("contents", Json::array([frame()]))]);
    Made::standard()
        .without("crash")
        .image(Image::new(APP_PATH, APP, BASE).vmaddr(TEXT).size(0x10_0000))
        .set("crash_type", crash_type)
        .set("stack_deadlock.backtrace", stack())
        .set("stack_oom", Json::array([Json::object([("frames", Json::array([frame()]))])]))
}

#[test]
fn what_was_sampled_before_an_end_is_symbolicated_and_no_reason_for_a_group() {
    let have = Have::app();
    let first = ended("foom_crash", BASE + at::FUNCTION + 4);
    let grouping = of(&have, &first);
    assert_eq!(
        (grouping.kind, grouping.title.as_str()),
        (GroupKind::OutOfMemory, "Out of memory in the foreground")
    );
    assert!(grouping.culprit.is_none() && !grouping.provisional);
    // Whatever was sampled, and whether its symbols are there.
    let other = ended("foom_crash", BASE + at::SYMBOL + 4);
    assert_eq!(of(&Have::default(), &other).fingerprint, grouping.fingerprint);
    let background = of(&have, &ended("foom_crash", BASE).set("appState", "background"));
    assert_eq!(background.title, "Out of memory in the background");
    assert_ne!(background.fingerprint, grouping.fingerprint);
    let blocked = of(&have, &ended("deadlock_crash", BASE + at::FUNCTION));
    assert_eq!((blocked.kind, blocked.title.as_str()), (GroupKind::Hang, "Main thread blocked"));

    let enriched = have.enrich(&first);
    assert_eq!((enriched.frames.total, enriched.frames.symbolicated), (2, 2));
    let json: Value = serde_json::from_slice(&enriched.bytes).unwrap();
    let sampled = &json["stack_oom"][0]["frames"][0]["symbolication"];
    assert_eq!((sampled["status"].as_str(), sampled["adjusted"].as_u64()), (Some("symbolicated"), Some(1)));
    let blocked = &json["stack_deadlock"]["backtrace"]["contents"][0]["symbolication"];
    assert_eq!((blocked["status"].as_str(), blocked["adjusted"].as_u64()), (Some("symbolicated"), None));
    let report = Report::read(&enriched.bytes, &ReadLimits::default()).unwrap();
    assert_eq!(report.strip_additions(), first.bytes());
    assert_eq!(regroup_report(&report, &GroupingRules::default()).unwrap().unwrap(), grouping);
    let said =
        json!({"kind": "out_of_memory", "rule": "crash_type", "confidence": "low", "foreground": true});
    assert_eq!(json["symbolication"]["ended"], said);
    // The thread that sends it has not crashed, nor has the one that was sampled.
    let sent = first.clone().set("crash.error.type", "user").set("stack_deadlock.crashed", true);
    let sent = sent.thread(Thread::new(0).crashed().frames([Frame::at(BASE + at::FUNCTION)])).bytes();
    let sent = Report::read(&sent, &ReadLimits::default()).unwrap();
    let explained = explain_report(&sent, &|id| have.0.get(id), &GroupingRules::default(), &[]);
    assert_eq!(explained.backtraces.len(), 3);
    assert!(explained.backtraces.iter().all(|backtrace| !backtrace.crashed && !backtrace.counts));
    // Without symbols the report waits for them.
    assert_eq!(Have::default().enrich(&first).missing, [id(APP)]);
}

/// A stripped binary was uploaded in the place of the dSYM: two crashes of it are no bug until the dSYM says so.
#[test]
fn with_the_symbols_of_a_stripped_binary_a_group_is_provisional_by_debug_id_and_address() {
    let crash = |offset| app().crashed_at([BASE + offset]);
    for quality in [Quality::None, Quality::Exports] {
        let have = Have::default().and(APP, symbols(APP, ARM64, quality));
        // A gap between two names, a name with a known extent, and one with an approximate one.
        let groups = [at::GAP, at::SYMBOL + 4, at::NEAREST + 4].map(|offset| of(&have, &crash(offset)));
        for (offset, group) in [at::GAP, at::SYMBOL + 4, at::NEAREST + 4].into_iter().zip(&groups) {
            assert!(group.provisional, "{quality:?} {offset:#x}");
            assert_eq!(group.frames[0].function, format!("{}+{offset:#x}", id(APP)));
            assert!(
                group.title.ends_with(&format!("Shop + {offset:#x}, symbols missing")),
                "{}",
                group.title
            );
            // The same as without any symbols, and as the enriched report says it.
            assert_eq!(group.fingerprint, of(&Have::default(), &crash(offset)).fingerprint);
            let enriched = have.enrich(&crash(offset)).bytes;
            let report = Report::read(&enriched, &ReadLimits::default()).unwrap();
            assert_eq!(regroup_report(&report, &GroupingRules::default()).unwrap().as_ref(), Some(group));
        }
        assert_ne!(groups[0].fingerprint, groups[1].fingerprint);
    }
    // The dSYM names the bug.
    let healed = of(&Have::app(), &crash(at::SYMBOL + 4));
    assert!(!healed.provisional && healed.frames[0].function == "plain", "{healed:?}");
}

#[test]
fn a_memory_warning_is_a_group_of_its_own() {
    let warning = Made::standard().without("crash").set("singleMemory", "1432").set("threshold", "1000");
    let grouping = of(&Have::default(), &warning);
    assert_eq!((grouping.kind, grouping.title.as_str()), (GroupKind::MemoryWarning, "Memory warning"));
    let enriched: Value = serde_json::from_slice(&Have::default().enrich(&warning).bytes).unwrap();
    assert!(enriched["symbolication"]["ended"].is_null());
}

#[test]
fn a_jetsam_event_is_of_the_groups_of_other_ends() {
    let killed = |states: &str, reason: &str| {
        let process = [("name", Json::from("Shop")), ("states", Json::array([Json::from(states)]))];
        let process = process.into_iter().chain([("reason", Json::from(reason))]);
        let event = Made::empty().set("memoryStatus.pageSize", 16_384);
        Have::default().enrich(&event.set("processes", Json::array([Json::object(process)])))
    };
    let first = killed("frontmost", "per-process-limit");
    let foom = of(&Have::default(), &ended("foom_crash", BASE));
    assert_eq!(first.grouping.unwrap().fingerprint, foom.fingerprint);
    let json: Value = serde_json::from_slice(&first.bytes).unwrap();
    let said = json!({"kind": "out_of_memory", "rule": "jetsam", "confidence": "high", "foreground": true,
        "evidence": [{"kind": "jetsam", "value": "per-process-limit"}]});
    assert_eq!(json["symbolication"]["ended"], said);
    let idle = killed("idle", "idle-exit").grouping.unwrap();
    assert_eq!((idle.kind, idle.title.as_str()), (GroupKind::Termination, "Ended by the system: idle exit"));
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

fn rules(text: &str) -> GroupingRules {
    GroupingRules::parse(text).unwrap()
}

fn by_rules(have: &Have, report: &Made, text: &str) -> Grouping {
    let rules = rules(text);
    let context = Context { rules: Some(&rules), ..Context::default() };
    have.enrich_with(&report.bytes(), &context).grouping.unwrap()
}

#[test]
fn a_tenants_rules_decide_what_counts() {
    let have = Have::app();
    // Shop::add calls nothing; plain is the function of the symbol table outside of it.
    let report = crashed(BASE, &[SYSTEM + 0x100, BASE + at::FUNCTION + 4, BASE + at::SYMBOL + 4]);
    let culprit = |text: &str| by_rules(&have, &report, text).culprit.unwrap();
    assert_eq!(culprit(""), "Shop::add (cart.cpp)");
    for ignoring in [
        "ignore function Shop::*",
        "ignore file cart.cpp",
        "not-app function *add",
        "sentinel function plain",
    ] {
        assert_eq!(culprit(ignoring), "plain", "{ignoring}");
    }
    // The first rule that fits decides.
    assert_eq!(culprit("app function Shop::add\nignore image *"), "Shop::add (cart.cpp)");
    assert_eq!(culprit("sentinel function Shop::*"), "Shop::add (cart.cpp)");
    let (none, other) = (of(&have, &report), by_rules(&have, &report, "ignore function Other"));
    assert_eq!(none.fingerprint, other.fingerprint, "rules that fit nothing change no group");
    assert_ne!(none.rules, other.rules);
    // The group is the one that it would have without the function.
    let outside = of(&have, &crashed(BASE, &[BASE + at::SYMBOL + 4]));
    assert_eq!(by_rules(&have, &report, "ignore function Shop::*").fingerprint, outside.fingerprint);
}

#[test]
fn a_rule_about_an_image_counts_while_its_symbols_are_missing() {
    let none = Have::default();
    let report = crashed(BASE, &[BASE + at::FUNCTION]);
    assert!(of(&none, &report).provisional);
    let name = APP_PATH.rsplit('/').next().unwrap();
    for text in [format!("ignore image {name}"), format!("not-app image *{APP_PATH}")] {
        let grouping = by_rules(&none, &report, &text);
        assert!(!grouping.provisional && grouping.frames.is_empty(), "{text}");
    }
}

#[test]
fn an_enriched_report_is_grouped_again_as_it_would_be_with_its_symbols() {
    let turn = [BASE + at::FUNCTION + 8, BASE + at::SYMBOL + 4];
    let deep: Vec<u64> = turn.into_iter().cycle().take(120).collect();
    let reports = [
        crashed(BASE, &[SYSTEM + 0x100, BASE + at::INLINED + 4, BASE + at::SYMBOL + 4]),
        crashed(BASE, &[BASE + at::FUNCTION, BASE + at::SYMBOL]),
        failed_at(STACK, &deep),
        crashed(BASE, &[BASE + at::SIGTRAMP + 4, BASE + at::INLINED]),
        crashed(BASE, &[BASE + at::GAP, BASE + at::LINE_0 + 4]).set("crash.error.type", "hang"),
        Made::standard().set("crash.error.type", "signal"),
    ];
    for text in ["", "ignore function Shop::*", "sentinel function plain", "not-app image *"] {
        for have in [Have::app(), Have::default()] {
            for (n, report) in reports.iter().enumerate() {
                let wanted = by_rules(&have, report, text);
                // It was grouped by other rules before.
                let stored = have.enrich(report).bytes;
                let stored = Report::read_stored(&stored).unwrap();
                assert_eq!(
                    regroup_report(&stored, &rules(text)).unwrap().unwrap(),
                    wanted,
                    "{n} by {text:?}"
                );
            }
        }
    }
    let context = Context { detail: Detail::FunctionsOnly, ..Context::default() };
    let short = Have::app().enrich_with(&reports[0].bytes(), &context).bytes;
    let short = Report::read_stored(&short).unwrap();
    assert!(regroup_report(&short, &GroupingRules::default()).is_err());
}

#[test]
fn an_explanation_says_why_a_function_counts() {
    let have = Have::app();
    let explained = |frames: &[u64], text: &str| {
        let bytes = crashed(BASE, frames).bytes();
        let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
        let explanation = explain_report(&report, &|id| have.0.get(id), &rules(text), &[]);
        let backtrace = explanation.backtraces.into_iter().find(|backtrace| backtrace.counts).unwrap();
        let grouping = explanation.grouping.unwrap();
        let functions = backtrace.frames.into_iter().flat_map(|frame| frame.grouping);
        let said = functions.map(|one| (one.function, one.verdict, one.rule.unwrap_or_default()));
        (grouping, said.collect::<Vec<_>>())
    };
    let said = |function: &str, verdict, rule: &str| (function.to_owned(), verdict, rule.to_owned());
    let frames = [SYSTEM + 0x100, BASE + at::FUNCTION + 4, BASE + at::SYMBOL + 4];
    let (grouping, functions) = explained(&frames, "");
    assert_eq!(grouping.fingerprint, of(&have, &crashed(BASE, &frames)).fingerprint_text());
    assert_eq!(
        functions,
        [
            said("", GroupingVerdict::Unnamed, ""),
            said("Shop::add", GroupingVerdict::Counted, ""),
            said("plain", GroupingVerdict::Beyond, ""),
        ]
    );
    let (grouping, functions) = explained(&frames, "# ours\nignore function Shop::*");
    assert!(grouping.rules.is_some());
    assert_eq!(functions[1], said("Shop::add", GroupingVerdict::Ignored, "line 2: ignore function Shop::*"));
    assert_eq!(functions[2], said("plain", GroupingVerdict::Counted, ""));
    let (_, functions) = explained(&frames, "sentinel function plain");
    assert_eq!(
        functions[1],
        said("Shop::add", GroupingVerdict::InsideSentinel, "line 1: sentinel function plain")
    );
    // Every frame of the backtrace has a reason, also one far outside.
    let far: Vec<u64> = (0..400).map(|n| BASE + at::FUNCTION + 4 * (n % 2)).collect();
    assert!(explained(&far, "").1.len() >= 400);
}

/// An app with these functions, 0x100 bytes each, and what is known of their returns.
fn app_of(functions: &[(&str, Option<NoReturn>)], source: NameSource) -> Have {
    let mut writer = Writer::new(1 << 20);
    let path = Some(writer.add_path("/src/cart.cpp").unwrap());
    let mut ranges = vec![(0, None)];
    for (start, (name, no_return)) in (0x1000..).step_by(0x100).zip(functions) {
        let function = writer.add_function(name, path).unwrap();
        if let Some(known) = no_return {
            writer.never_returns(function, *known);
        }
        let owner = CodeOwner { function, start: Some(start), source, approximate: false };
        let scope = writer.add_scope(CodeScope::Owner(owner)).unwrap();
        ranges.push((start, Some(CodePlace { scope, line: 7, column: 1 })));
    }
    ranges.push((0x8000, None));
    let header = ObjectHeader {
        debug_id: id(APP),
        cpu: ARM64,
        text_address: TEXT,
        text_size: 0x10_0000,
        extent: 0x10_0000,
        quality: Quality::DwarfSymtab,
    };
    let bytes = writer.into_bytes(&header, ranges.into_iter().collect()).unwrap();
    Have::default().and(APP, ImageSymbols::from_symcache(Arc::new(SymCache::parse(bytes).unwrap())))
}

/// A crash in which functions of the app, by their positions, have called one of the system.
fn ended_by(end: &str, callers: &[u64]) -> Made {
    let system = Frame::at(SYSTEM + 0x104).symbol(end, SYSTEM + 0x100);
    let app = callers.iter().map(|caller| Frame::at(BASE + 0x1000 + 0x100 * caller + 0x20));
    Made::standard()
        .image(Image::new(APP_PATH, APP, BASE).vmaddr(TEXT).size(0x10_0000))
        .image(Image::new("/usr/lib/libc++abi.dylib", LIBRARY, SYSTEM).size(0x10_0000))
        .crashed_thread(Thread::new(0).crashed().frames(std::iter::once(system).chain(app)))
}

#[test]
fn a_function_that_never_returns_is_to_blame_for_no_failure_of_its_callers() {
    let functions = [
        ("helper", Some(NoReturn::Inferred)),
        ("declared_helper", Some(NoReturn::Declared)),
        ("parse", None),
        ("submit", None),
        ("main", None),
    ];
    let have = app_of(&functions, NameSource::Dwarf);
    let grouping = |end: &str, callers: &[u64]| {
        let enriched = have.enrich(&ended_by(end, callers));
        let grouping = enriched.grouping.unwrap();
        assert_eq!(again(&enriched.bytes), grouping, "{end} {callers:?}");
        grouping
    };
    let culprit = |end: &str, callers: &[u64]| grouping(end, callers).culprit.unwrap_or_default();
    for end in [
        "abort",
        "__cxa_throw",
        "objc_exception_throw",
        "swift_unexpectedError",
        "+[NSException raise:format:]",
    ] {
        assert_eq!(culprit(end, &[0, 2, 4]), "parse (cart.cpp)", "{end}");
        assert_eq!(culprit(end, &[0, 1, 3, 4]), "submit (cart.cpp)", "{end}");
        // It throws itself, and returns if all is well.
        assert_eq!(culprit(end, &[2, 3, 4]), "parse (cart.cpp)", "{end}");
        assert_eq!(culprit(end, &[0, 4]), "main (cart.cpp)", "{end}");
        // The app has no function that called it.
        assert_eq!(culprit(end, &[0]), "helper (cart.cpp)", "{end}");
        assert_eq!(culprit(end, &[0, 1]), "declared_helper (cart.cpp)", "{end}");
    }
    // The system calls it back: what the app did before is not to blame.
    let called_back = ended_by("abort", &[0]);
    let system = Frame::at(SYSTEM + 0x304).symbol("-[UIControl sendAction:]", SYSTEM + 0x300);
    let app = |caller: u64| Frame::at(BASE + 0x1000 + 0x100 * caller + 0x20);
    let abort = Frame::at(SYSTEM + 0x104).symbol("abort", SYSTEM + 0x100);
    let frames = [abort, app(0), system, app(3), app(4)];
    let called_back = have.enrich(&called_back.crashed_thread(Thread::new(0).crashed().frames(frames)));
    assert_eq!(called_back.grouping.clone().unwrap().culprit.as_deref(), Some("helper (cart.cpp)"));
    assert_eq!(again(&called_back.bytes), called_back.grouping.unwrap());
    // A loop that never returns runs into something, or is slow.
    assert_eq!(culprit("objc_msgSend", &[0, 3, 4]), "helper (cart.cpp)");
    assert_eq!(culprit("memcpy", &[1, 3, 4]), "submit (cart.cpp)");
    let hang = have.enrich(&ended_by("mach_msg_trap", &[0, 3, 4]).set("crash.error.type", "hang"));
    assert_eq!(hang.grouping.unwrap().frames.len(), 2);
}

#[test]
fn what_is_known_of_returns_is_said_and_explained() {
    let functions =
        [("helper", Some(NoReturn::Inferred)), ("die", Some(NoReturn::Declared)), ("parse", None)];
    let have = app_of(&functions, NameSource::Dwarf);
    let report = ended_by("abort", &[0, 1, 2]);
    let tree = have.tree(&report);
    let frames = tree["crash"]["crashed_thread"]["backtrace"]["contents"].as_array().unwrap();
    let said: Vec<Option<&str>> =
        frames.iter().map(|frame| frame["symbolication"]["calls"][0]["noreturn"].as_str()).collect();
    assert_eq!(said, [None, Some("inferred"), Some("declared"), None]);
    let bytes = report.bytes();
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let explanation = explain_report(&report, &|id| have.0.get(id), &GroupingRules::default(), &[]);
    let backtrace = explanation.backtraces.into_iter().find(|backtrace| backtrace.counts).unwrap();
    let verdicts: Vec<_> =
        backtrace.frames.into_iter().flat_map(|frame| frame.grouping).map(|one| one.verdict).collect();
    use GroupingVerdict::{Counted, ReporterByCode, ReporterByDeclaration, Runtime};
    assert_eq!(verdicts, [Runtime, ReporterByCode, ReporterByDeclaration, Counted]);
}

#[test]
fn a_symbol_table_says_nothing_of_returns_so_names_do() {
    let functions = [("throw_exception", None), ("parse", None), ("raise_price", None), ("submit", None)];
    let culprit = |source, callers: &[u64]| {
        let enriched = app_of(&functions, source).enrich(&ended_by("__cxa_throw", callers));
        let grouping = enriched.grouping.unwrap();
        assert_eq!(again(&enriched.bytes), grouping);
        grouping.culprit.unwrap()
    };
    assert_eq!(culprit(NameSource::Symtab, &[0, 1]), "parse (cart.cpp)");
    assert_eq!(culprit(NameSource::Symtab, &[1, 3]), "parse (cart.cpp)");
    assert_eq!(culprit(NameSource::Dwarf, &[2, 3]), "raise_price (cart.cpp)");
}

#[test]
fn a_trap_in_a_function_that_never_returns_is_of_its_caller() {
    let functions = [("helper", Some(NoReturn::Inferred)), ("parse", None)];
    let have = app_of(&functions, NameSource::Dwarf);
    let report = |exception: &str| {
        let frames = [0x1000, 0x1100].map(|start| Frame::at(BASE + start + 0x20));
        Made::standard()
            .set("crash.error.mach.exception_name", exception)
            .set("crash.error.signal.name", if exception == "EXC_BREAKPOINT" { "SIGTRAP" } else { "SIGSEGV" })
            .image(Image::new(APP_PATH, APP, BASE).vmaddr(TEXT).size(0x10_0000))
            .crashed_thread(Thread::new(0).crashed().frames(frames))
    };
    assert_eq!(of(&have, &report("EXC_BREAKPOINT")).culprit.as_deref(), Some("parse (cart.cpp)"));
    assert_eq!(of(&have, &report("EXC_BAD_ACCESS")).culprit.as_deref(), Some("helper (cart.cpp)"));
}

#[test]
fn a_kill_by_the_system_has_the_kind_of_its_cause() {
    let have = Have::app();
    let killed = |path: &str, value: u64| {
        let report =
            crashed(BASE, &[BASE + at::FUNCTION + 4]).set("crash.error.mach.exception_name", "EXC_CRASH");
        report.set(path, value)
    };
    let hang = of(&have, &killed("crash.error.exit_reason.code", 0x8BAD_F00D));
    assert_eq!((hang.kind, hang.title.as_str()), (GroupKind::Hang, "Hang in Shop::add"));
    let memory = of(&have, &killed("crash.error.exit_reason.namespace", 1));
    assert_eq!((memory.kind, memory.title.as_str()), (GroupKind::OutOfMemory, "Out of memory"));
    let exception = crashed(BASE, &[BASE + at::FUNCTION + 4])
        .set("crash.error.type", "termination")
        .set("crash.error.subtype", "memory_exception");
    // Where the process was is no cause of the lack of memory.
    assert_eq!(of(&have, &exception).fingerprint, memory.fingerprint);
    let crash = of(&have, &killed("crash.error.exit_reason.code", 6));
    assert_eq!((crash.kind, crash.title.as_str()), (GroupKind::Crash, "SIGSEGV in Shop::add"));
}
