//! Reports that were sampled: KSCrash's profiles and MetricKit's diagnostics.

use crate::{enrich, read, strip};
use unslide_report::{BacktraceOrigin, DiagnosticKind, Element, ReadError, ReadLimits, Report};
use unslide_testkit::fixtures;
use unslide_testkit::reports::{self, Frame, Json, Thread};

/// The stacks of a report with their samples, the outermost address first.
fn stacks(report: &Report<'_>) -> Vec<(Vec<u64>, u64)> {
    let profile = report.profile_or_hang().expect("it was sampled");
    let address = |frame: u32| {
        let address = profile.backtrace.frames[frame as usize].instruction_addr;
        address.and_then(unslide_report::Number::to_bits).expect("every frame has an address")
    };
    let path = |mut at: usize| {
        let mut path = vec![address(profile.nodes[at].frame)];
        while let Some(parent) = profile.nodes[at].parent {
            at = parent as usize;
            path.insert(0, address(profile.nodes[at].frame));
        }
        path
    };
    let ends = profile.nodes.iter().enumerate().filter(|(_, node)| node.samples > 0);
    ends.map(|(at, node)| (path(at), node.samples)).collect()
}

fn numbers(values: &[u64]) -> Json {
    Json::array(values.iter().map(|value| Json::from(*value)))
}

fn sampled(samples: &[&[u64]]) -> reports::Report {
    let samples = samples.iter().map(|frames| Json::object([("frames", numbers(frames))]));
    reports::Report::standard()
        .set("crash.error.type", "profile")
        .profile_frames([Frame::at(0x1000), Frame::empty(), Frame::at(0x2000), Frame::at(0x3000)])
        .set("crash.error.profile.name", "feed")
        .set("crash.error.profile.duration", 2_300_000_000_u64)
        .set("crash.error.profile.samples", Json::array(samples))
}

#[test]
fn the_samples_of_a_profile_become_stacks_of_its_frames() {
    // Frame 1 says nothing and frame 9 is none.
    let bytes = sampled(&[&[0, 2, 3], &[0, 2, 3], &[2, 3], &[1, 9, 3], &[]]).bytes();
    let report = read(&bytes);
    assert_eq!(
        stacks(&report),
        [(vec![0x3000], 1), (vec![0x3000, 0x2000], 1), (vec![0x3000, 0x2000, 0x1000], 2)]
    );
    let profile = report.build_profile().unwrap();
    assert_eq!((profile.name.as_deref(), profile.skipped), (Some("feed"), 3));
    assert_eq!(profile.order, [2, 2, 1, 0], "in the order of time");
    assert_eq!((report.duration_millis(), profile.millis), (Some(2_300), Some(2_300)));
    assert_eq!(report.summary().duration_ms, Some(2_300));
}

#[test]
fn what_the_device_left_out_of_a_profile_is_counted() {
    let bytes = sampled(&[&[0, 2]]).set("crash.error.profile.truncated_count", 40_u64).bytes();
    assert_eq!(read(&bytes).build_profile().unwrap().skipped, 40);
}

#[test]
fn a_hang_without_a_profile_has_the_stack_that_was_seen() {
    let hang = |kind: &str| {
        reports::Report::standard()
            .set("crash.error.type", kind)
            .set("crash.error.hang.hang_start_nanos", 5_000_000_000_u64)
            .set("crash.error.hang.hang_end_nanos", 6_500_000_000_u64)
            .thread(Thread::new(0).frames([Frame::at(0x1000), Frame::at(0x2000)]).crashed())
            .bytes()
    };
    let bytes = hang("hang");
    let report = read(&bytes);
    assert!(report.build_profile().is_none());
    assert_eq!((stacks(&report), report.duration_millis()), (vec![(vec![0x2000, 0x1000], 1)], Some(1_500)));
    // A hang stands in every report of a run that had one.
    let bytes = hang("mach");
    let crash = read(&bytes);
    assert!(crash.profile_or_hang().is_none() && crash.duration_millis().is_none());
}

fn frame(address: u64, count: u64, name: &str, below: &str) -> String {
    format!(
        "{{\"binaryUUID\":\"A1B2C3D4-0000-3111-8222-0123456789AB\",\"offsetIntoBinaryTextSegment\":{},\
         \"sampleCount\":{count},\"subFrames\":[{below}],\"binaryName\":\"{name}\",\"address\":{address}}}",
        address & 0xfff
    )
}

fn diagnostic(frames: &str, facts: &str) -> String {
    format!(
        "{{\"version\":\"1.0.0\",\"callStackTree\":{{\"callStackPerThread\":false,\"callStacks\":[{{\
         \"callStackRootFrames\":[{frames}]}}]}},\"diagnosticMetaData\":{{\"appVersion\":\"4.2.0\",\
         \"appBuildVersion\":\"4201\",\"bundleIdentifier\":\"com.example.shop\",\"deviceType\":\"iPhone16,1\",\
         \"osVersion\":\"iPhone OS 18.3.1 (22D72)\",{facts}}}}}"
    )
}

fn hang() -> String {
    let leaves = [frame(0x3003, 1, "Shop", ""), frame(0x3004, 2, "Shop", "")].join(",");
    let tree = frame(0x1001, 5, "libsystem_pthread.dylib", &frame(0x2002, 4, "Shop", &leaves));
    diagnostic(&tree, "\"hangDuration\":\"20 sec\"")
}

#[test]
fn a_diagnostic_of_metric_kit_is_a_report() {
    let payload =
        format!("{{\"timeStampEnd\":\"x\",\"hangDiagnostics\":[{}],\"crashDiagnostics\":[]}}", hang());
    for text in [hang(), payload] {
        let report = Report::read_event(text.as_bytes(), &ReadLimits::default()).unwrap();
        assert_eq!(report.diagnostic(), Some(DiagnosticKind::Hang));
        let backtrace = report.build_profile().unwrap().backtrace;
        assert_eq!((backtrace.origin, backtrace.frames.len()), (BacktraceOrigin::CallStackTree, 4));
        let main = vec![0x1001, 0x2002];
        let of = |leaf| [&main[..], &[leaf]].concat();
        assert_eq!(
            stacks(&report),
            [(main[..1].to_vec(), 1), (main.clone(), 1), (of(0x3003), 1), (of(0x3004), 2)]
        );
        let innermost: Vec<bool> = (0..4).map(|at| backtrace.is_innermost(at)).collect();
        assert_eq!(innermost, [true, true, false, false], "inner frames end first");
        let summary = report.summary();
        assert_eq!(report.app(), summary.app);
        assert_eq!(
            (summary.app.as_deref(), summary.version.as_deref()),
            (Some("com.example.shop"), Some("4.2.0"))
        );
        assert_eq!(
            (summary.os_name.as_deref(), summary.os_version.as_deref()),
            (Some("iOS"), Some("18.3.1"))
        );
        assert!(!unslide_report::text::apple_log(&report).is_empty());
        assert_eq!((summary.error_type.as_deref(), summary.duration_ms), (Some("hang"), Some(20_000)));
    }
}

/// Proves: unchanged-bytes
#[test]
fn a_diagnostic_comes_back_unchanged() {
    let text = hang();
    let enriched = enrich(text.as_bytes());
    let report = read(&enriched);
    assert!(report.ours.is_some());
    assert!(report.build_profile().unwrap().backtrace.frames.iter().all(|frame| frame.own_member.is_some()));
    assert_eq!(stacks(&report), stacks(&read(text.as_bytes())));
    assert_eq!(strip(&enriched), text.as_bytes());
}

#[test]
fn a_tree_with_the_program_counter_at_its_root_is_turned() {
    let start = |count| frame(0x9009, count, "dyld", "");
    let below = [frame(0x2002, 3, "Shop", &start(3)), frame(0x2003, 2, "Shop", &start(2))].join(",");
    let text = diagnostic(&frame(0x1001, 5, "Shop", &below), "\"totalCPUTime\":\"20 sec\"");
    let report = read(text.as_bytes());
    assert_eq!(report.diagnostic(), Some(DiagnosticKind::Cpu));
    let mut stacks = stacks(&report);
    stacks.sort();
    assert_eq!(stacks, [(vec![0x9009, 0x2002, 0x1001], 3), (vec![0x9009, 0x2003, 0x1001], 2)]);
}

#[test]
fn frames_that_say_nothing_count_for_the_frame_above() {
    let blank = r#"{},{"subFrames":[{}]},{"sampleCount":3}"#;
    let tree = frame(0x1001, 9, "dyld", &[blank, &frame(0x2002, 2, "Shop", "{}")].join(","));
    let alone = format!(r#"{{"address":{},"subFrames":[{blank}]}}"#, 0x3003);
    let text = diagnostic(&format!("{tree},{alone}"), "\"hangDuration\":\"20 sec\"");
    let report = read(text.as_bytes());
    let mut found = stacks(&report);
    found.sort();
    assert_eq!(found, [(vec![0x1001], 7), (vec![0x1001, 0x2002], 2), (vec![0x3003], 5)]);
    let backtrace = report.build_profile().unwrap().backtrace;
    assert_eq!((backtrace.frames.len(), backtrace.blank_frames.len()), (3, 9));
    assert!((0..3).all(|at| !backtrace.is_innermost(at)), "each calls something");
    assert_eq!(strip(&enrich(text.as_bytes())), text.as_bytes());
}

#[test]
fn of_two_lists_in_a_frame_the_last_one_counts() {
    let leaf = |address| frame(address, 1, "Shop", "");
    let twice = format!(
        r#"{{"address":4097,"binaryName":"dyld","subFrames":[{},1],"subFrames":[{}]}}"#,
        leaf(0x2002),
        leaf(0x3003)
    );
    let text = diagnostic(&twice, "\"hangDuration\":\"20 sec\"");
    let both = format!("\"callStackRootFrames\":[{}],\"callStackRootFrames\"", leaf(0x9009));
    let text = text.replace("\"callStackRootFrames\"", &both);
    let report = read(text.as_bytes());
    assert_eq!(stacks(&report), [(vec![0x1001, 0x3003], 1)]);
    assert_eq!(report.build_profile().unwrap().backtrace.invalid, 0);
    assert_eq!(strip(&enrich(text.as_bytes())), text.as_bytes());
}

#[test]
fn the_locks_at_which_threads_wait_are_not_where_they_begin() {
    let waits = [0x3001, 0x3002, 0x3003].map(|address| frame(address, 1, "libsystem_pthread.dylib", ""));
    let tree = frame(0x1001, 4, "dyld", &[&waits.join(","), ",", &frame(0x2002, 1, "Shop", "")].concat());
    let text = diagnostic(&tree, "\"hangDuration\":\"20 sec\"");
    assert!(stacks(&read(text.as_bytes())).iter().all(|(path, _)| path[0] == 0x1001));
}

#[test]
fn a_payload_is_one_diagnostic_of_what_was_sampled() {
    let refused = |text: &str| match Report::read_event(text.as_bytes(), &ReadLimits::default()) {
        Err(ReadError::Diagnostics { count }) => Some(count),
        _ => None,
    };
    let named = |count| ReadError::Diagnostics { count }.to_string();
    assert!(
        named(1).contains("hangDuration")
            && named(2).contains("2 diagnostics")
            && named(2).contains("/i/{key}")
    );
    let one = hang();
    assert_eq!(refused(&format!("{{\"hangDiagnostics\":[{one},{one}]}}")), Some(2));
    assert_eq!(refused(&format!("{{\"crashDiagnostics\":[{one}]}}")), Some(1));
    let crash = diagnostic(&frame(0x1001, 1, "Shop", ""), "\"signal\":11");
    assert_eq!(refused(&crash), Some(1));
    // A crash of KSCrash stays one, whatever else it has.
    let both = format!("{{\"crash\":{{\"error\":{{\"type\":\"mach\"}}}},\"hangDiagnostics\":[{one}]}}");
    let report = Report::read_event(both.as_bytes(), &ReadLimits::default()).unwrap();
    assert!(report.diagnostic().is_none() && report.backtraces.is_empty());
}

/// A hang with a tree of `frames` frames in one another.
fn deep(frames: usize) -> String {
    let frame = |at| {
        let address = 0x1_0000_0000_u64 + 16 * at as u64;
        format!("{{\"address\":{address},\"binaryName\":\"Shop\",\"sampleCount\":1,\"subFrames\":[")
    };
    let open: String = (0..frames).map(frame).collect();
    diagnostic(&format!("{open}{}", "]}".repeat(frames)), "\"hangDuration\":\"1 sec\"")
}

#[test]
fn a_tree_is_read_to_the_depth_of_the_deepest_stacks() {
    for text in [deep(512), format!("[{}]", deep(512))] {
        let elements = unslide_report::split_record(text.as_bytes(), &ReadLimits::default()).unwrap();
        let Element::Report(bytes) = &elements[0] else { panic!("a report") };
        let report = Report::read_event(bytes, &ReadLimits::default()).unwrap();
        let profile = report.build_profile().unwrap();
        assert_eq!((profile.nodes.len(), profile.skipped), (512, 0));
        assert_eq!((report.summary().duration_ms, stacks(&report)[0].0.len()), (Some(1_000), 512));
        assert_eq!(strip(&enrich(bytes)), *bytes);
    }
}

#[test]
fn hostile_trees_are_bounded() {
    assert_eq!(crate::reason(deep(512).as_bytes()), "none");
    for frames in [513, 700, 100_000] {
        assert_eq!(crate::reason(deep(frames).as_bytes()), "too_deep", "{frames}");
    }
    let wide = vec![r#"{"address":4097}"#; 1 << 17].join(",");
    assert_eq!(crate::reason(diagnostic(&wide, "\"hangDuration\":\"1 sec\"").as_bytes()), "too_many");
    // Each sample of a long stack costs its steps.
    let all: Vec<u64> = (0..2_000).collect();
    let samples: Vec<&[u64]> = vec![&all; 20];
    let frames = (0..2_000).map(|at| Frame::at(0x1000 + at));
    let samples = samples.iter().map(|frames| Json::object([("frames", numbers(frames))]));
    let report = reports::Report::standard().profile_frames(frames);
    let bytes = report.set("crash.error.profile.samples", Json::array(samples)).bytes();
    let report = read(&bytes);
    let profile = report.build_profile().unwrap();
    assert_eq!((profile.nodes.len(), profile.skipped), (1_024, 20 * (2_000 - 1_024)));
    assert_eq!(stacks(&report)[0].0[0], 0x1000 + 1_999, "the outermost frames count");
}

#[test]
fn published_diagnostics_are_read() {
    let test = "a published diagnostic is read as a report";
    let Some(files) = fixtures::published(test, "apple/metrickit", ".json", 9) else { return };
    let tree = files.iter().find(|file| file.ends_with("not-per-thread.json")).unwrap();
    let tree = std::fs::read_to_string(tree).unwrap();
    let text = format!("{{\"callStackTree\":{tree},\"diagnosticMetaData\":{{\"hangDuration\":\"3 sec\"}}}}");
    let report = Report::read_event(text.as_bytes(), &ReadLimits::default()).unwrap();
    assert!(stacks(&report).len() > 1);
    assert_eq!(strip(&enrich(text.as_bytes())), text.as_bytes());
}
