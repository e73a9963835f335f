//! Summaries.

use crate::{enrich_with, read};
use unslide_report::{ReportSummary, TopFrame};
use unslide_testkit::reports::{Error, Frame, Image, Json, Report, Thread};

const ID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

fn summary(report: &Report) -> ReportSummary {
    read(&report.bytes()).summary()
}

fn text(text: &str) -> Option<String> {
    Some(text.into())
}

#[test]
fn a_summary_tells_app_device_and_crash() {
    let thread = Thread::new(3).crashed().name("worker").frames([Frame::at(1)]);
    let report = Report::standard()
        .thread(thread)
        .set("report.monitor_id", "MachException")
        .set("report.run_id", "c0ffee")
        .set("crash.error.is_fatal", true);
    let expected = ReportSummary {
        report_id: "EC55B54F-1963-41AB-A65F-E0F98EF29DFB".parse().ok(),
        app: text("com.example.shop"),
        app_name: text("Shop"),
        version: text("1.2.3"),
        build: text("45"),
        report_type: text("standard"),
        monitor_id: text("MachException"),
        run_id: text("c0ffee"),
        timestamp: time::OffsetDateTime::from_unix_timestamp(1_763_632_800).ok(),
        os_name: text("iOS"),
        os_version: text("17.0.1"),
        os_build: text("21A340"),
        device_model: text("iPhone15,2"),
        device_hash: text("0308d5c6e6b4e172c59da6d76ff0e1636a5ce591"),
        cpu_arch: text("arm64e"),
        process_name: text("Shop"),
        error_type: text("mach"),
        exception: text("EXC_BAD_ACCESS"),
        signal: text("SIGSEGV"),
        code: text("KERN_INVALID_ADDRESS"),
        reason: None,
        duration_ms: None,
        memory_limit: None,
        sampled: None,
        fatal: Some(true),
        crashed_thread: Some(3),
        thread_name: text("worker"),
        top_frames: vec![TopFrame::default()],
    };
    assert_eq!(summary(&report), expected);
    let bare = ReportSummary { report_id: Some(read(b"{}").id), ..ReportSummary::default() };
    assert_eq!(read(b"{}").summary(), bare);
}

/// A report of an end with these images, each with its message.
fn stopped(images: &[(&str, &str, &str)]) -> Report {
    let image = |(n, (path, key, message)): (u64, &(&str, &str, &str))| {
        Image::new(path, "", 0x1000 * (n + 1)).set(key, *message)
    };
    Report::standard()
        .set("crash.error.mach.exception_name", "EXC_BREAKPOINT")
        .set("crash.error.signal.name", "SIGTRAP")
        .images((0..).zip(images).map(image))
}

#[test]
fn a_share_that_cannot_be_counts_as_absent() {
    for (share, expected) in [
        ("0.25", Some(0.25)),
        ("1", Some(1.0)),
        ("1.0", Some(1.0)),
        ("1e-3", Some(0.001)),
        ("0.0009", None),
        ("0", None),
        ("-0.5", None),
        ("2", None),
        ("1e999", None),
        ("\"0.5\"", Some(0.5)),
        ("\"half\"", None),
        ("null", None),
    ] {
        let report = format!(r#"{{"crash":{{"error":{{"type":"user"}}}},"report":{{"sampled":{share}}}}}"#);
        assert_eq!(read(report.as_bytes()).summary().sampled, expected, "{share}");
    }
}

#[test]
fn one_image_says_why_the_process_stopped() {
    let (first, second) = ("crash_info_message", "crash_info_message2");
    let all = [
        ("/usr/lib/libdispatch.dylib", first, "BUG IN CLIENT OF LIBDISPATCH"),
        ("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation", first, "of CoreFoundation"),
        ("/usr/lib/system/libsystem_pthread.dylib", first, "of threads"),
        ("/usr/lib/system/libsystem_c.dylib", first, "Assertion failed: (price > 0)"),
        ("/usr/lib/swift/libswiftCore.dylib", second, " Fatal error: no price\n"),
        ("/private/var/containers/Bundle/Application/Shop.app/Shop", first, "of the app"),
    ];
    let reason = |images: &[(&str, &str, &str)]| summary(&stopped(images)).reason;
    // Each goes before those of the list above it.
    for (n, (_, _, message)) in all.iter().enumerate() {
        assert_eq!(reason(&all[..=n]).as_deref(), Some(message.trim()));
    }
    assert_eq!(
        reason(&[("/usr/lib/a.dylib", first, "first"), ("/usr/lib/b.dylib", first, "b")]),
        text("first")
    );
    // What tells of a simulator, nothing, or more than a device writes is no message.
    let long = "x".repeat(100_000);
    for other in ["CoreSimulator 783.5 - Device: iPhone 11", " \n", "", &long] {
        assert_eq!(reason(&[all[3], ("Shop", first, other)]).as_deref(), Some(all[3].2), "{other:.20}");
    }
    let terms = read(&stopped(&all).bytes()).search_terms();
    assert!(terms.contains(&"of the app".to_owned()), "{terms:?}");
    // What the exception says goes first, and nothing is written before a bad access.
    assert_eq!(summary(&stopped(&all).set("crash.error.reason", "its own")).reason, text("its own"));
    let access = stopped(&all).set("crash.error.mach.exception_name", "EXC_BAD_ACCESS");
    assert_eq!(summary(&access).reason, None);
    assert_eq!(summary(&stopped(&all).set("crash.error.type", "user")).reason, None);
}

#[test]
fn exceptions_have_names_and_reasons() {
    let of = |error| {
        let summary = summary(&Report::standard().error(error));
        (summary.exception.unwrap_or_default(), summary.reason.unwrap_or_default())
    };
    let check =
        |error, name: &str, reason: &str| assert_eq!(of(error), (name.into(), reason.into()), "{error:?}");
    check(
        Error::NsException,
        "NSInvalidArgumentException",
        "-[__NSArrayI objectForKey:]: unrecognized selector",
    );
    check(Error::CppException, "11MyException", "Something bad happened...");
    check(Error::User, "TypeError", "undefined is not a function");
    check(Error::Signal, "EXC_CRASH", "");
    check(Error::Termination, "", "memory_limit");
    let inside = Report::standard().error(Error::NsException).without("crash.error.reason");
    assert_eq!(summary(&inside.set("crash.error.nsexception.reason", "inside")).reason, text("inside"));
}

#[test]
fn timestamps_are_read_in_every_spelling() {
    let at = |value: Json| {
        summary(&Report::standard().set("report.timestamp", value))
            .timestamp
            .map(time::OffsetDateTime::unix_timestamp_nanos)
    };
    let number = |n: i64| at(Json::from(n));
    assert_eq!(number(1_478_560_643), Some(1_478_560_643_000_000_000));
    assert_eq!(number(99_999_999_999), Some(99_999_999_999_000_000_000));
    assert_eq!(number(100_000_000_000), Some(100_000_000_000_000_000));
    assert_eq!(number(1_478_560_643_123), Some(1_478_560_643_123_000_000));
    assert_eq!(number(99_999_999_999_999), Some(99_999_999_999_999_000_000));
    assert_eq!(number(100_000_000_000_000), Some(100_000_000_000_000_000));
    assert_eq!(number(1_716_226_564_474_658), Some(1_716_226_564_474_658_000));
    assert_eq!(at("2016-11-07T23:17:23Z".into()), Some(1_478_560_643_000_000_000));
    assert_eq!(at("2016-11-07T23:17:23.000123Z".into()), Some(1_478_560_643_000_123_000));
    // Gateways that keep every number as a double.
    for double in ["1478560643.0", "1.478560643e9"] {
        assert_eq!(at(Json::Raw(double.into())), Some(1_478_560_643_000_000_000), "{double}");
    }
    // A device with Arabic digits, and one with a 12-hour clock.
    assert_eq!(at("٢٠١٦-١١-٠٧T٢٣:١٧:٢٣Z".into()), Some(1_478_560_643_000_000_000));
    assert_eq!(at("2016-11-07 11:17:23 PM +0000".into()), Some(1_478_560_643_000_000_000));
    // A wrong date of an old writer is not put right.
    assert_eq!(at("1970-01-17T18:47:06Z".into()), Some(1_450_026_000_000_000));
    for none in [
        Json::from(""),
        Json::from("yesterday"),
        Json::from(-1),
        Json::null(),
        Json::array([]),
        Json::Raw("1478560643.5".into()),
        Json::Raw("1e30".into()),
    ] {
        assert_eq!(at(none.clone()), None, "{none:?}");
    }
    assert_eq!(at(Json::from(u64::MAX)), None);
}

#[test]
fn an_embedded_crash_is_completed_from_the_outer_report() {
    let inner =
        Report::standard().app("com.inner", "1", "2").without("report.timestamp").without("system.machine");
    let outer =
        Report::standard().app("com.outer", "3", "4").set("report.type", "minimal").error(Error::Signal);
    let summary = summary(&outer.set("system.machine", "iPad1,1").recrash(inner));
    assert_eq!((summary.app, summary.build), (text("com.inner"), text("2")));
    assert_eq!((summary.device_model, summary.timestamp.is_some()), (text("iPad1,1"), true));
    assert_eq!((summary.error_type, summary.report_type), (text("mach"), text("standard")));
    // Of two parts as near, the inner one; and what was written when it crashed goes first.
    let named = |name: &str| Report::empty().set("system.machine", name);
    let between = Report::empty();
    let report = named("outer").set("report.type", "minimal").recrash(between.recrash(named("inner")));
    assert_eq!(self::summary(&report).device_model, text("inner"));
    let log = unslide_report::text::apple_log(&read(&report.bytes()));
    assert!(log.contains("Hardware Model:      inner\n"), "{log}");
    let both = Report::empty().set("system.machine", "base").set("system_atcrash.machine", "at crash");
    assert_eq!(self::summary(&both).device_model, text("at crash"));
    let log = unslide_report::text::apple_log(&read(&both.bytes()));
    assert!(log.contains("Hardware Model:      at crash\n"), "{log}");
}

#[test]
fn the_top_frames_are_ours_where_there_are_any() {
    let frames = (0..20_u64).map(|n| Frame::at(n).object("Shop", 1).symbol("device_name", 1).uuid(ID));
    let report = Report::standard()
        .image(Image::new("/a/b/Market", ID, 1))
        .thread(Thread::new(0).crashed().frames(frames));
    let bytes = report.bytes();
    let device = read(&bytes).summary().top_frames;
    assert_eq!(device.len(), 10);
    assert_eq!(
        (device[0].function.as_deref(), device[0].image.as_deref()),
        (Some("device_name"), Some("Shop"))
    );
    assert_eq!(device[0].debug_id, ID.parse().ok());
    let frame = format!(
        r#"{{"status":"symbolicated","debug_id":"{ID}","calls":[{{"function":"price","file":"/src/Cart.swift","line":12,"inlined":true}},{{"function":"add"}}]}}"#
    );
    let enriched = enrich_with(&bytes, &frame, r#"{"version":1,"engine":"unslide/0.1.0"}"#);
    let ours = read(&enriched).summary().top_frames;
    assert_eq!(ours.len(), 10);
    let expected = TopFrame {
        image: text("Market"),
        debug_id: ID.parse().ok(),
        function: text("price"),
        file: text("/src/Cart.swift"),
        line: Some(12),
    };
    assert_eq!(ours[0], expected);
    assert_eq!(ours[1], TopFrame { function: text("add"), file: None, line: None, ..expected });
}

#[test]
fn a_placeholder_of_the_device_is_no_function_of_a_summary_and_no_term() {
    for placeholder in ["<redacted>", "<deduplicated_symbol>", "_mh_execute_header", "???", ""] {
        let frames = [Frame::at(1).symbol(placeholder, 1), Frame::at(2).symbol("größe", 1)];
        let report = Report::standard().thread(Thread::new(0).crashed().frames(frames));
        let bytes = report.bytes();
        let functions: Vec<Option<String>> =
            read(&bytes).summary().top_frames.into_iter().map(|frame| frame.function).collect();
        assert_eq!(functions, [None, text("größe")], "{placeholder}");
        let terms = read(&bytes).search_terms();
        assert!(terms.contains(&"größe".to_owned()) && !terms.contains(&placeholder.to_owned()), "{terms:?}");
    }
}

#[test]
fn a_report_is_found_by_every_function_and_file_of_its_crash() {
    let frames =
        (0..200_u64).map(|n| Frame::at(n).object("Shop", 1).symbol(&format!("f{}", n / 2), 1).uuid(ID));
    let report = Report::standard()
        .set("crash.error.reason", " out of umbrellas ")
        .thread(Thread::new(0).frames([Frame::at(1).symbol("elsewhere", 1)]))
        .thread(Thread::new(1).crashed().frames(frames));
    let bytes = report.bytes();
    let device = read(&bytes).search_terms();
    assert_eq!(device.len(), 100, "each once, and no more");
    let reason = device.iter().position(|term| term == "out of umbrellas").unwrap();
    assert_eq!(device[reason + 1..reason + 3], ["f0", "f1"]);
    assert!(!device.contains(&"elsewhere".to_owned()));
    let frame = r#"{"status":"symbolicated","calls":[{"function":"price","file":"/src/Cart.swift","inlined":true},{"function":"add"}]}"#;
    let enriched = enrich_with(&bytes, frame, r#"{"version":1,"engine":"unslide/0.1.0"}"#);
    let ours = read(&enriched).search_terms();
    assert_eq!(ours[reason + 1..], ["price", "Cart.swift", "add"]);
    let script = r#"{"version":1,"engine":"unslide/0.1.0","javascript":{"frames":[{"function":"pay","file":"src/cart.ts"}]}}"#;
    let script = enrich_with(&bytes, frame, script);
    assert_eq!(read(&script).search_terms()[reason + 1..reason + 3], ["pay", "cart.ts"]);
}

#[test]
fn the_thread_that_a_summary_names_is_the_one_that_crashed() {
    let named = |report: &Report| summary(report).thread_name;
    let plain = Report::standard().thread(Thread::new(0).name("none"));
    assert_eq!(named(&plain), None);
    let current = plain
        .thread(Thread::new(1).name("current").current())
        .thread(Thread::new(2).name("second").current());
    assert_eq!(named(&current), text("current"));
    let single = current.clone().set("crash.crashed_thread.dispatch_queue", "single");
    assert_eq!(named(&single), text("single"));
    let crashed = single
        .thread(Thread::new(3).name("crashed").crashed())
        .thread(Thread::new(4).name("later").crashed());
    assert_eq!(named(&crashed), text("crashed"));
    // Nothing is left of a list that another takes the place of.
    let twice = crashed.duplicate("crash", "threads", Json::array([]));
    assert_eq!(named(&twice), text("single"));
    assert_eq!(named(&twice.set("crash.crashed_thread", "lost")), None);
}
