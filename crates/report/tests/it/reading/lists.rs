//! Which lists of frames there are, and what is known of each.

use crate::read;
use unslide_report::{BacktraceOrigin, Number};
use unslide_testkit::reports::{self, Error, Frame, Json, Report, Thread};

/// The part, origin and first addresses of every backtrace.
fn lists(bytes: &[u8]) -> Vec<(usize, BacktraceOrigin, Vec<u64>)> {
    let report = read(bytes);
    let lists = report.backtraces.iter().map(|b| {
        let addresses = b.frames.iter().filter_map(|f| f.instruction_addr?.to_bits()).collect();
        (b.part, b.origin, addresses)
    });
    lists.collect()
}

#[test]
fn frames_are_in_five_places() {
    let report = Report::standard()
        .profile_frames([Frame::at(5)])
        .thread(Thread::new(0).frames([Frame::at(1), Frame::at(2)]))
        .thread(Thread::new(1))
        .thread(Thread::new(2).frames([]))
        .last_exception([Frame::at(4)])
        .set("crash.crashed_thread", Json::object([("backtrace", reports::backtrace([Frame::at(3)]))]))
        .deallocated_exception(9, [Frame::at(6)]);
    assert_eq!(
        lists(&report.bytes()),
        [
            // In the order of the document: `process` stands before `crash`.
            (0, BacktraceOrigin::DeallocatedException, vec![6]),
            (0, BacktraceOrigin::Profile, vec![5]),
            (0, BacktraceOrigin::Thread, vec![1, 2]),
            (0, BacktraceOrigin::Thread, vec![]),
            (0, BacktraceOrigin::LastException, vec![4]),
            (0, BacktraceOrigin::CrashedThread, vec![3]),
        ]
    );
}

#[test]
fn nothing_else_is_a_frame() {
    let contents = reports::backtrace([Frame::at(1)]);
    for path in [
        "backtrace",
        "user.backtrace",
        "process.backtrace",
        "crash.backtrace",
        "crash.threads",
        "crash.error.backtrace",
        "crash.error.user_reported.backtrace",
        "crash.error.nsexception.backtrace",
        "crash.profile",
        "system.crash.threads",
    ] {
        let report = Report::standard().set(path, contents.clone());
        assert!(read(&report.bytes()).backtraces.is_empty(), "{path}");
    }
    for error in [Error::User, Error::UserObjects] {
        assert!(read(&Report::standard().error(error).bytes()).backtraces.is_empty());
    }
    let frames = Json::array([Json::object([("instruction_addr", Json::from(1))])]);
    for path in
        ["crash.threads", "crash.error.frames", "crash.last_exception_backtrace", "crash.crashed_thread"]
    {
        let report = Report::standard().set(path, frames.clone());
        assert!(read(&report.bytes()).backtraces.is_empty(), "{path}");
    }
}

#[test]
fn parts_are_read_to_the_fourth() {
    let level = |n: u64| {
        Report::empty().set("crash.threads", Json::array([])).thread(Thread::new(0).frames([Frame::at(n)]))
    };
    let report = (0..5).rev().fold(level(5), |inner, n| level(n).recrash(inner));
    let bytes = report.style(reports::Style::Pretty).bytes();
    let read = read(&bytes);
    assert_eq!(read.parts.len(), 5);
    let found: Vec<_> = lists(&bytes).into_iter().map(|(part, _, frames)| (part, frames)).collect();
    assert_eq!(found, [(0, vec![0]), (1, vec![1]), (2, vec![2]), (3, vec![3]), (4, vec![4])]);
    assert_eq!(
        read.warnings[0].to_string(),
        "recrash_report.recrash_report.recrash_report.recrash_report.recrash_report: nested too deep, left alone"
    );
}

#[test]
fn offsets_ascend_wherever_the_sections_stand() {
    for (name, report) in reports::shapes() {
        let bytes = report.sorted().bytes();
        let report = read(&bytes);
        let offsets: Vec<_> = report.backtraces.iter().flat_map(|b| &b.frames).map(|f| f.insert_at).collect();
        assert!(offsets.is_sorted_by(|a, b| a < b), "{name}");
        assert!(offsets.iter().all(|offset| bytes[*offset] == b'}'), "{name}");
        assert!(bytes[report.insert_at] == b'}' && report.insert_at + 1 == bytes.len(), "{name}");
    }
}

#[test]
fn registers_are_known_by_their_program_counter() {
    let of = |registers: Json| {
        let bytes = Report::standard().thread(Thread::new(0).frames([]).set("registers", registers)).bytes();
        let thread = read(&bytes).backtraces[0].thread.unwrap();
        (thread.pc, thread.has_registers)
    };
    let basic = |members: Vec<(&str, Json)>| Json::object([("basic", Json::object(members))]);
    for name in ["pc", "rip", "eip"] {
        let pc = of(basic(vec![("lr", Json::from(1)), (name, Json::from(7)), ("sp", Json::from(2))]));
        assert_eq!(pc, (Some(Number::from_unsigned(7)), true), "{name}");
    }
    assert_eq!(of(basic(vec![("lr", Json::from(1))])), (None, true));
    assert_eq!(of(basic(vec![])), (None, false));
    assert_eq!(of(Json::object([("exception", Json::object([("pc", Json::from(7))]))])), (None, false));
    assert_eq!(of(Json::null()), (None, false));
    let negative = of(basic(vec![("pc", Json::from(-7))])).0;
    assert_eq!(negative, Some(Number::Int { magnitude: 7, negative: true }));
}

#[test]
fn skipped_frames_are_counted() {
    let bytes = Report::standard().thread(Thread::new(0).frames([Frame::at(1)]).skipped(64_862)).bytes();
    assert_eq!(read(&bytes).backtraces[0].skipped, 64_862);
    let before = br#"{"crash":{"threads":[{"backtrace":{"skipped":3,"contents":[]}}]}}"#;
    assert_eq!(read(before).backtraces[0].skipped, 3);
}

#[test]
fn the_crashed_backtrace_is_the_one_to_show() {
    let address = |report: &Report| {
        let bytes = report.bytes();
        let report = read(&bytes);
        report.crashed_backtrace().and_then(|b| b.frames[0].instruction_addr?.to_bits())
    };
    let thread = |n| Thread::new(n).frames([Frame::at(n)]);
    let plain = Report::standard().thread(thread(1)).thread(thread(2));
    assert_eq!(address(&plain), None);
    let current = plain.thread(thread(3).current());
    assert_eq!(address(&current), Some(3));
    let single = current.clone().set("crash.crashed_thread.backtrace", reports::backtrace([Frame::at(4)]));
    assert_eq!(address(&single), Some(4));
    let crashed = single.thread(thread(5).crashed());
    assert_eq!(address(&crashed), Some(5));
    let exception = crashed.clone().last_exception([Frame::at(6)]);
    assert_eq!(address(&exception), Some(5));
    assert_eq!(address(&exception.clone().error(Error::NsException)), Some(6));
    assert_eq!(address(&exception.clone().error(Error::CppException)), Some(6));
    assert_eq!(address(&crashed.error(Error::NsException)), Some(5));
    // Of the crash of interest, not of its handler's.
    let handler = current.set("report.type", "minimal").recrash(exception);
    assert_eq!(address(&handler), Some(5));
}
