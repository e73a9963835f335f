use super::*;
use crate::{ReadError, ReadLimits};

fn event(json: &str) -> Option<MemoryEvent> {
    Report::read(json.as_bytes(), &ReadLimits::default()).unwrap().memory_event().cloned()
}

#[test]
fn an_end_is_read_from_each_place_where_apps_put_it() {
    for json in [
        r#"{"crash_type":"foom_crash"}"#,
        r#"{"crash":{"crash_type":"foom_crash"}}"#,
        r#"{"user":{"crash_type":"foom_crash"}}"#,
        r#"{"crash_type":"other","user":{"crash_type":"foom_crash"}}"#,
    ] {
        let event = event(json).unwrap();
        assert_eq!((event.kind, event.foreground), (MemoryEventKind::OutOfMemory, Some(true)), "{json}");
    }
    assert_eq!(event(r#"{"crash_type":"deadlock_crash"}"#).unwrap().kind, MemoryEventKind::BlockedMainThread);
    for json in [r#"{"crash_type":"crash"}"#, r#"{"crash_type":7}"#, r#"{"user":[]}"#, "{}"] {
        assert_eq!(event(json), None, "{json}");
    }
}

#[test]
fn the_mark_of_an_earlier_end_is_none_of_a_crash() {
    let read = |kind: &str| {
        event(&format!(r#"{{"user":{{"crash_type":"foom_crash"}},"crash":{{"error":{{"type":"{kind}"}}}}}}"#))
    };
    for kind in ["mach", "signal", "nsexception", "cpp_exception", "hang", "profile"] {
        assert_eq!(read(kind), None, "{kind}");
    }
    for kind in ["user", "deadlock", "termination"] {
        assert_eq!(read(kind).unwrap().kind, MemoryEventKind::OutOfMemory, "{kind}");
    }
}

#[test]
fn the_first_section_that_can_be_used_counts_and_the_last_of_each() {
    for json in [
        r#"{"crash_type":"foom_crash","user":{"crash_type":"none"}}"#,
        r#"{"user":{"crash_type":"none"},"crash_type":"foom_crash"}"#,
        r#"{"user":{"crash_type":"deadlock_crash"},"crash":{"crash_type":"foom_crash"}}"#,
        r#"{"crash_type":"foom_crash","appState":"asleep","user":{"appState":1}}"#,
    ] {
        let event = event(json).unwrap();
        assert_eq!((event.kind, event.foreground), (MemoryEventKind::OutOfMemory, Some(true)), "{json}");
    }
    for json in [
        r#"{"user":{"crash_type":"foom_crash"},"user":{}}"#,
        r#"{"user":{"crash_type":"foom_crash"},"user":null}"#,
        r#"{"crash":{"crash_type":"foom_crash"},"crash":{}}"#,
    ] {
        assert_eq!(event(json), None, "{json}");
    }
    for other in ["null", "[]", r#"[{"frames":[]}]"#] {
        let json = format!(
            r#"{{"user":{{"stack_oom":{other}}},"crash":{{"stack_oom":[5,{{"frames":[{{"addr":1}}],"size":7}}]}},
            "crash_type":"foom_crash","stack_oom":{other}}}"#
        );
        let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
        let position = report.backtraces[0].thread.unwrap().position;
        assert_eq!(report.allocation_weights()[position].bytes, Some(7), "{other}");
    }
}

#[test]
fn the_threads_of_the_run_that_reports_have_not_crashed() {
    let json = r#"{"crash_type":"foom_crash","stack_oom":[{"frames":[{"addr":8192,"symbol_name":"held"}]}],
        "report":{"run_id":"r"},"system":{"application_stats":{"application_in_foreground":true}},
        "crash":{"error":{"type":"user","user_reported":{"name":"Ended"}},"threads":[{"index":3,"name":"sender",
        "crashed":true,"current_thread":true,"registers":{"basic":{"pc":4096}},
        "backtrace":{"contents":[{"instruction_addr":4096,"symbol_name":"send"}]}}]}}"#;
    let warning = r#"{"crash":{"error":{"type":"user","user_reported":{
        "backtrace":["__MEMORY_LEVEL__NON_FATAL__"]}},"threads":[{"crashed":true,
        "backtrace":{"contents":[{"instruction_addr":4096,"symbol_name":"send"}]}}]}}"#;
    for json in [json, warning] {
        let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
        assert!(report.crashed_backtrace().is_none());
        let summary = report.summary();
        assert_eq!((summary.crashed_thread, summary.thread_name), (None, None));
        assert!(summary.top_frames.is_empty() && !report.search_terms().contains(&"send".to_owned()));
        let view = crate::text::view::build_view(&report);
        assert!(view.about_memory && view.registers.is_empty());
        assert!(view.threads.iter().all(|thread| !thread.crashed));
        let log = crate::text::apple_log(&report);
        assert!(
            log.contains("Thread ") && !log.contains("Crashed:") && !log.contains("crashed with"),
            "{log}"
        );
    }
    let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
    assert_eq!(report.summary().fatal, None, "only a warning says that the app goes on");
    let samples: Vec<_> =
        crate::text::view::build_view(&report).threads.iter().map(|t| t.is_sample).collect();
    assert_eq!(samples, [true, false]);
}

#[test]
fn a_log_of_an_end_in_the_background_has_no_role() {
    let log =
        |json: &str| crate::text::apple_log(&Report::read(json.as_bytes(), &ReadLimits::default()).unwrap());
    assert!(log(r#"{"crash_type":"foom_crash"}"#).contains("Role:"));
    assert!(!log(r#"{"crash_type":"boom_crash"}"#).contains("Role:"));
}

#[test]
fn lists_without_frames_are_not_kept_and_what_is_wrong_in_them_counts() {
    let json = r#"{"crash_type":"foom_crash","stack_oom":[{"frames":[]},{"frames":[5,6]},{"frames":[{}]}]}"#;
    let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
    assert_eq!((report.backtraces.len(), report.invalid.frames), (1, 2));
}

#[test]
fn the_app_state_says_where_the_app_was() {
    for (state, expected) in [
        (r#""foreground""#, Some(true)),
        (r#""Background""#, Some(false)),
        ("0", Some(true)),
        ("2", Some(false)),
        (r#""0""#, Some(true)),
        (r#""1""#, Some(true)),
        (r#"" 2 ""#, Some(false)),
        (r#""2.0""#, Some(false)),
        ("2.0", Some(false)),
        (r#""-1""#, Some(true)),
        // What says nothing leaves it at the name of the crash type.
        ("3", Some(true)),
        (r#""asleep""#, Some(true)),
        ("null", Some(true)),
    ] {
        let json = format!(r#"{{"crash_type":"foom_crash","appState":{state}}}"#);
        assert_eq!(event(&json).unwrap().foreground, expected, "{state}");
    }
}

#[test]
fn a_warning_has_decimal_texts_and_is_none_beside_a_crash() {
    let json = r#"{"singleMemory":"1432.5","threshold":"1000","LaunchTime":"1763600000.25"}"#;
    let warning = event(json).unwrap();
    assert_eq!(warning.kind, MemoryEventKind::Warning);
    assert_eq!(warning.footprint, Some(1_502_085_120));
    assert_eq!(warning.passed_at.unwrap().unix_timestamp(), 1_763_600_000);
    assert_eq!(warning.describe_reason().unwrap(), "the footprint is 1433 MB, the threshold 1000 MB");
    assert_eq!(event(r#"{"user":{"singleMemory":900}}"#).unwrap().footprint, Some(900 << 20));
    assert_eq!(event(r#"{"user":{"singleMemory":"900"},"crash":{"error":{"type":"mach"}}}"#), None);
    for wrong in [r#""-1""#, r#""1e300""#, r#""NaN""#, r#""much""#, "{}", r#""""#] {
        assert_eq!(event(&format!(r#"{{"singleMemory":{wrong}}}"#)), None, "{wrong}");
    }
    let far = event(r#"{"singleMemory":"1","LaunchTime":"1e300"}"#).unwrap();
    assert_eq!(far.passed_at, None);
}

#[test]
fn a_warning_in_an_error_that_the_app_reports_itself_is_one() {
    let in_error = |error: &str, user: &str| {
        event(&format!(
            r#"{{"user":{user},"crash":{{"error":{{{error}}},"threads":[{{"index":0,
            "backtrace":{{"contents":[{{"instruction_addr":4096}}]}}}}]}}}}"#
        ))
    };
    let user = r#"{"singleMemory":"812.5","threshold":"800"}"#;
    let reported = r#""type":"user","user_reported":{"name":"Memory"}"#;
    for error in [format!(r#"{reported},"is_fatal":false"#), reported.to_owned()] {
        let warning = in_error(&error, user).unwrap();
        assert_eq!(warning.kind, MemoryEventKind::Warning, "{error}");
        assert_eq!((warning.footprint, warning.threshold), (Some(851_968_000), Some(800 << 20)));
        assert_eq!(in_error(&error, r#"{"threshold":"800"}"#), None, "without a footprint");
    }
    for other in [
        format!(r#"{reported},"is_fatal":true"#),
        r#""type":"mach","is_fatal":false"#.to_owned(),
        r#""type":"nsexception""#.to_owned(),
        r#""type":"hang","is_fatal":false"#.to_owned(),
        r#""type":"user","user_reported":{"name":"TypeError","language":"javascript",
            "backtrace":"at f (app.js:1:2)"}"#
            .to_owned(),
    ] {
        assert_eq!(in_error(&other, user), None, "{other}");
    }
}

#[test]
fn every_number_of_memory_may_be_a_decimal_text() {
    let json = r#"{"crash_type":"foom_crash","report":{"sampled":"0.25"},
        "stack_oom":[{"frames":[{"addr":1}],"size":" 7340032.0 ","count":"3"}],
        "system":{"app_memory":{"memory_footprint":"3145728","memory_remaining":"1048576"}}}"#;
    let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
    assert_eq!(report.allocation_weights()[0], AllocationWeight { bytes: Some(7 << 20), count: Some(3) });
    assert_eq!((report.memory_limit(), report.summary().sampled), (Some(4 << 20), Some(0.25)));
    for wrong in [r#""inf""#, r#""1,5""#, r#""-3""#, r#""0x10""#, r#""7.5""#] {
        let json = format!(
            r#"{{"crash_type":"foom_crash","stack_oom":[{{"frames":[{{"addr":1}}],"size":{wrong}}}]}}"#
        );
        let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
        assert_eq!(report.allocation_weights()[0].bytes, None, "{wrong}");
    }
}

#[test]
fn a_memory_warning_of_kscrash_is_one() {
    let json = r#"{"crash":{"error":{"type":"user","user_reported":{"name":"Memory Pressure",
        "backtrace":["__MEMORY_LEVEL__NON_FATAL__"]}}}}"#;
    assert_eq!(event(json).unwrap().kind, MemoryEventKind::Warning);
    assert_eq!(event(&json.replace("__NON_FATAL__", "")), None);
}

#[test]
fn a_report_about_memory_is_accepted_without_a_crash() {
    let accept = |json: &str| Report::read_event(json.as_bytes(), &ReadLimits::default()).map(|_| ());
    assert_eq!(accept(r#"{"crash_type":"foom_crash"}"#), Ok(()));
    assert_eq!(accept(r#"{"singleMemory":"1"}"#), Ok(()));
    for other in [r#"{"threshold":"1"}"#, r#"{"crash_type":"x"}"#, r#"{"stack_oom":[]}"#] {
        assert!(matches!(accept(other), Err(ReadError::NoCrash { .. })), "{other}");
    }
}

#[test]
fn the_stacks_of_each_name_are_lists_of_frames_and_the_rest_is_untouched() {
    let frame = r#"{"instruction_addr":4096,"x":1}"#;
    let json = format!(
        r#"{{"crash_type":"foom_crash","stack_oom":[{{"frames":[{frame}],"size":"10","count":1,"y":[]}},
        {{"stack":[{frame},{{}}],"bytes":30}},{{"backtrace":{{"contents":[{frame}],"skipped":2}},"count":"4"}},
        5,{{"frames":"no"}},{{}}],"stack_deadlock":{{"index":0,"backtrace":{{"contents":[{frame}]}}}}}}"#
    );
    let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
    let seen: Vec<_> = report
        .backtraces
        .iter()
        .map(|b| (b.origin, b.thread.unwrap().position, b.frame_slots().count(), b.skipped))
        .collect();
    let stack = BacktraceOrigin::AllocationStack;
    let expected =
        [(stack, 0, 1, 0), (stack, 1, 2, 0), (stack, 2, 1, 2), (BacktraceOrigin::BlockedThread, 0, 1, 0)];
    assert_eq!(seen, expected);
    let weights = report.allocation_weights();
    assert_eq!(weights.len(), 6);
    assert_eq!(weights[0], AllocationWeight { bytes: Some(10), count: Some(1) });
    assert_eq!(weights[1], AllocationWeight { bytes: Some(30), count: None });
    assert_eq!(weights[2], AllocationWeight { bytes: None, count: Some(4) });
    assert!(report.crashed_backtrace().is_none(), "a sample is never the cause");
    let log = crate::text::apple_log(&report);
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text}: {log}"));
    assert!(at("(not the cause): 30 bytes") < at("(not the cause): 10 bytes in 1 allocations"));
    assert!(log.contains("(not the cause): main thread, blocked"));
}

#[test]
fn frames_of_allocations_have_addresses_of_several_names() {
    let json = r#"{"crash_type":"foom_crash","stack_oom":[{"frames":[{"address":4096},{"addr":8192}]}],
        "crash":{"threads":[{"backtrace":{"contents":[{"address":4096}]}}]}}"#;
    let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
    let frames =
        |at: usize| report.backtraces[at].frames.iter().filter(|f| f.instruction_addr.is_some()).count();
    assert_eq!((frames(0), frames(1)), (2, 0));
}

#[test]
fn the_last_of_two_members_counts() {
    let json = r#"{"stack_oom":[{"frames":[{"instruction_addr":1}]}],"stack_oom":[],"crash_type":"foom_crash",
        "crash_type":"deadlock_crash"}"#;
    let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
    assert!(report.backtraces.is_empty());
    assert_eq!(report.memory_event().unwrap().kind, MemoryEventKind::BlockedMainThread);
}
