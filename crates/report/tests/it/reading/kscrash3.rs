//! Reports of KSCrash 3.0: what is read of its new keys, and that all of them come back unchanged.

use crate::{enrich, read, reason, strip};
use unslide_report::{BacktraceOrigin, Number, Report};
use unslide_testkit::fixtures;

const APP_ID: &str = "6F1D2C3B-4A59-3687-9EAF-B0C1D2E3F405";
/// Exit reason of an app that did not answer.
const WATCHDOG: &str = r#"{"code":2343432205,"namespace":10,"flags":2}"#;

/// A report with an error and threads, with every key that 3.0 adds.
fn report(error: &str, threads: &str) -> String {
    format!(
        r#"{{"report":{{"id":"A1111111-2222-5333-8444-555555555504","run_id":"5B7D1C34-8A0F-4F0E-9D53-2F0A6C1E7B90",
        "session_id":"0c9f6a3b-2d1e-4f50-8a7b-6c5d4e3f2a1b","timestamp":1795593600250000,"monitor_id":"Corpse","finalized":true,
        "version":"3.9.0"}},"binary_images":[],"crash":{{"error":{error},"threads":[{threads}],"last_exception_backtrace":{{
        "contents":[{{"instruction_addr":4339257680,"object_addr":4339220480,"object_uuid":"{APP_ID}"}}],"skipped":0}}}},
        "monitor_data":{{"DiskMonitor":{{"free":null}}}},"corpse":{{"images":[{{"uuid":"{APP_ID}","baseAddress":1,"size":9}}],
        "crashInfo":{{"exitReason":{{"userPayload":"AAEC"}}}}}}}}"#
    )
}

fn crashed_thread() -> String {
    format!(
        r#"{{"index":3,"crashed":true,"backtrace":{{"contents":[{{"instruction_addr":4339257680,
        "object_addr":4339220480,"object_uuid":"{APP_ID}"}},{{"instruction_addr":4339255812}}]}}}}"#
    )
}

/// The addresses of the stacks of a report with their samples, the innermost first.
fn stacks(report: &Report<'_>) -> Vec<(Vec<u64>, u64)> {
    let profile = report.profile_or_hang().expect("it was sampled");
    let address =
        |frame: u32| profile.backtrace.frames[frame as usize].instruction_addr.and_then(Number::to_bits);
    let ends = profile.nodes.iter().enumerate().filter(|(_, node)| node.samples > 0);
    let path = |at: usize| {
        let next = |at: &usize| profile.nodes[*at].parent.map(|parent| parent as usize);
        std::iter::successors(Some(at), next)
            .map(|at| address(profile.nodes[at].frame).expect("an address"))
            .collect()
    };
    ends.map(|(at, node)| (path(at), node.samples)).collect()
}

/// A profile of two threads, of which the second is the main one.
fn hang_profile(subtype: &str) -> String {
    let frames = r#"[{"instruction_addr":4096},{"instruction_addr":8192},{"instruction_addr":12288}]"#;
    let threads = r#"[{"index":1,"samples":[{"count":30,"frames":[2]}]},{"index":0,"primary":true,"samples":
        [{"count":17,"frames":[0,1]},{"frames":[1]},{"count":2}]}]"#;
    report(
        &format!(
            r#"{{"type":"profile","is_fatal":false{subtype},"profile":{{"name":"com.kscrash.profile.hang","duration":
            5250000000,"frames":{frames},"samples":[],"threads":{threads}}}}}"#
        ),
        "",
    )
}

/// Proves: unchanged-bytes
#[test]
fn the_keys_of_kscrash_3_are_read_or_kept_and_all_come_back_unchanged() {
    let text = report(&format!(r#"{{"type":"mach","exit_reason":{WATCHDOG}}}"#), &crashed_thread());
    let read_back = read(text.as_bytes());
    assert_eq!(read_back.id.to_string(), "a1111111-2222-5333-8444-555555555504", "a UUID of any version");
    let summary = read_back.summary();
    assert_eq!(summary.run_id.as_deref(), Some("5B7D1C34-8A0F-4F0E-9D53-2F0A6C1E7B90"));
    assert_eq!(summary.timestamp.unwrap().unix_timestamp(), 1_795_593_600);
    let origins: Vec<_> = read_back.backtraces.iter().map(|backtrace| backtrace.origin).collect();
    assert_eq!(origins, [BacktraceOrigin::Thread, BacktraceOrigin::LastException]);
    let frame = &read_back.backtraces[0].frames[0];
    assert_eq!(frame.object_uuid.unwrap(), APP_ID.parse().unwrap());
    assert!(read_back.parts[0].images.is_empty(), "the images of a corpse reach to the end of the cache");
    assert_eq!(strip(&enrich(text.as_bytes())), text.as_bytes());
    let cut = &text.as_bytes()[..text.len() / 2];
    assert_eq!(reason(cut), "truncated");
}

#[test]
fn a_hang_sampled_by_kscrash_3_has_the_stacks_of_the_main_thread() {
    let text = hang_profile(r#","subtype":"hang""#);
    let hang = read(text.as_bytes());
    assert!(hang.crash_error().is_sampled_hang());
    assert_eq!(stacks(&hang), [(vec![8192], 1), (vec![4096, 8192], 17)]);
    let profile = hang.build_profile().unwrap();
    assert_eq!((profile.skipped, profile.order.len(), profile.millis), (2, 0, Some(5_250)));
    assert_eq!(hang.innermost_sampled_frames(), [0, 1, 2].into_iter().collect());
    let text = hang_profile("");
    let profile = read(text.as_bytes());
    assert!(!profile.crash_error().is_sampled_hang());
    assert_eq!(stacks(&profile).iter().map(|(_, samples)| samples).sum::<u64>(), 48, "of all threads");
}

#[test]
fn an_end_by_the_watchdog_is_a_fatal_hang_and_a_kill_by_jetsam_is_out_of_memory() {
    let error = |text: &str| read(report(text, &crashed_thread()).as_bytes()).crash_error().clone();
    for hang in [
        format!(r#"{{"type":"mach","exit_reason":{WATCHDOG}}}"#),
        r#"{"type":"signal","exit_reason":{"code":1,"namespace":20}}"#.to_owned(),
        r#"{"type":"mach","termination_reason":"hang"}"#.to_owned(),
    ] {
        assert!(error(&hang).is_fatal_hang() && !error(&hang).is_out_of_memory(), "{hang}");
    }
    for memory in [
        r#"{"type":"mach","exit_reason":{"code":7,"namespace":1}}"#,
        r#"{"type":"mach","exit_reason":{"namespace":1}}"#,
        r#"{"type":"termination","subtype":"memory_exception"}"#,
        r#"{"type":"mach","termination_reason":"memory_limit"}"#,
    ] {
        assert!(error(memory).is_out_of_memory() && !error(memory).is_fatal_hang(), "{memory}");
    }
    for other in [
        r#"{"type":"mach","exit_reason":{"code":7}}"#,
        r#"{"type":"mach","exit_reason":{"code":9,"namespace":1}}"#,
        r#"{"type":"mach","exit_reason":{"code":"7","namespace":[1]}}"#,
        r#"{"type":"mach","exit_reason":7}"#,
    ] {
        assert!(!error(other).is_out_of_memory() && !error(other).is_fatal_hang(), "{other}");
    }
    let text = report(
        &format!(
            r#"{{"type":"mach","exit_reason":{WATCHDOG},"hang":{{"hang_start_nanos":5,"hang_end_nanos":2000000005}}}}"#
        ),
        &crashed_thread(),
    );
    let hang = read(text.as_bytes());
    assert_eq!((hang.duration_millis(), stacks(&hang)[0].0.len()), (Some(2_000), 2));
    assert_eq!(hang.summary().error_type.as_deref(), Some("mach"), "the report's own word");
}

#[test]
fn published_reports_of_kscrash_3_have_their_facts() {
    let test = "published reports of KSCrash 3.0 have their facts";
    let Some(files) = fixtures::published(test, "kscrash/synthetic-3.0", ".json", 3) else { return };
    let find = |name: &str| {
        let file = files.iter().find(|file| file.ends_with(name)).unwrap();
        std::fs::read(file).unwrap()
    };
    let bytes = find("metrickit-hang-profile.json");
    let hang = read(&bytes);
    assert!(hang.crash_error().is_sampled_hang());
    assert_eq!(stacks(&hang).iter().map(|(_, samples)| samples).sum::<u64>(), 21);
    let bytes = find("metrickit-memory-exception.json");
    let memory = read(&bytes);
    assert!(memory.crash_error().is_out_of_memory() && memory.crashed_backtrace().is_some());
    assert_eq!(memory.evaluate_end().unwrap().kind.as_str(), "out_of_memory");
}

#[test]
fn the_exit_reason_in_the_snapshot_of_a_corpse_stands_in_for_a_missing_one() {
    let snapshot = |namespace: u64, code: u64| {
        format!(r#"{{"crashInfo":{{"exitReason":{{"namespace":{namespace},"code":{code}}}}}}}"#)
    };
    let report = |error: &str, root: &str| {
        let json =
            format!(r#"{{"report":{{"version":"3.9.0"}},"crash":{{"error":{error},"threads":[]}}{root}}}"#);
        let read = Report::read(json.as_bytes(), &unslide_report::ReadLimits::default()).unwrap();
        (
            read.crash_error().is_out_of_memory(),
            read.crash_error().is_fatal_hang(),
            read.crash_error().exit.code,
        )
    };
    let mach = r#"{"type":"mach","mach":{"exception":10}}"#;
    // Jetsam with and without lack of memory, the watchdog, and where the extension writes it first.
    assert_eq!(report(mach, &format!(r#","corpse":{}"#, snapshot(1, 7))), (true, false, Some(7)));
    assert_eq!(report(mach, &format!(r#","corpse":{}"#, snapshot(1, 9))), (false, false, Some(9)));
    assert_eq!(report(mach, &format!(r#","corpse":{}"#, snapshot(20, 1))), (false, true, Some(1)));
    let inside =
        format!(r#"{{"type":"mach","monitor_data":{{"Corpse":{{"snapshot":{}}}}}}}"#, snapshot(1, 7));
    assert_eq!(report(&inside, ""), (true, false, Some(7)));
    // The report's own exit reason comes first.
    let own = r#"{"type":"mach","exit_reason":{"namespace":2,"code":11}}"#;
    assert_eq!(report(own, &format!(r#","corpse":{}"#, snapshot(1, 7))), (false, false, Some(11)));
    for odd in ["null", "[]", "7", r#"{"crashInfo":{"exitReason":"x"}}"#] {
        assert_eq!(report(mach, &format!(r#","corpse":{odd}"#)), (false, false, None), "{odd}");
    }
}
