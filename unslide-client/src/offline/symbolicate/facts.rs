//! The facts of a report, without symbols: what its reader understood.

use serde::Serialize;
use unslide_report::{Backtrace, BacktraceOrigin, JsonValue, ReadLimits, Report};
use unslide_symbolicate::{Context, LocatedFrame, Plan};

/// The maximum number of frames of a backtrace that are printed.
const PRINTED_FRAMES_LIMIT: usize = 1_024;

/// Facts of one report. Facts that the report does not state are left out.
#[derive(Debug, Default, Serialize)]
struct PrintedFacts {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    build: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_build: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception_code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crashed_thread: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frames: Vec<FrameFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_0_exact: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    last_exception: Vec<FrameFacts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    profile_frames: Vec<FrameFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    /// The category of the end that MetricKit states since iOS 27.
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_category: Option<String>,
    /// The states that the app reported to MetricKit before the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<serde_json::Value>,
}

/// The place of a frame.
#[derive(Debug, Serialize)]
struct FrameFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    debug_id: Option<String>,
    offset: u64,
    lookup: u64,
}

impl FrameFacts {
    fn from_located(frame: &LocatedFrame) -> FrameFacts {
        let debug_id = frame.debug_id.map(|id| id.to_string().to_lowercase());
        FrameFacts { debug_id, offset: frame.offset, lookup: frame.lookup }
    }
}

/// Facts of a record that is not taken.
#[derive(Serialize)]
struct RefusedFacts<'r> {
    refused: &'r str,
}

/// Returns the line about a record that is not taken.
pub fn refused_facts(problem: Option<&str>) -> Vec<u8> {
    let facts = RefusedFacts { refused: problem.unwrap_or_default() };
    let mut line = serde_json::to_vec(&facts).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Returns the facts of a report as one JSON object.
pub fn facts(report: &Report<'_>) -> String {
    let plan = Plan::new(report);
    let summary = report.summary();
    let enriched = plan.enrich(&|_| None, &Context::default());
    let root =
        JsonValue::read(report.input, 0, &ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() });
    let root = root.ok().map(|(root, _)| root);
    let value = |path: &[&str]| root.and_then(|root| root.find_path(path)).filter(|value| !value.is_null());
    let number = |path: &[&str]| value(path)?.as_number()?.to_bits();
    let text = |path: &[&str]| value(path).and_then(JsonValue::decode_string);
    let crashed = find(report, &|one| is_thread(one) && one.thread.is_some_and(|thread| thread.crashed));
    let frames = crashed.map(|at| plan.located_frames(at)).unwrap_or_default();
    let printed = |frames: &[LocatedFrame]| -> Vec<FrameFacts> {
        frames.iter().take(PRINTED_FRAMES_LIMIT).map(FrameFacts::from_located).collect()
    };
    let of_origin = |origins: &[BacktraceOrigin]| {
        let at = find(report, &|one| origins.contains(&one.origin));
        printed(&at.map(|at| plan.located_frames(at)).unwrap_or_default())
    };
    let is_metric_kit = summary.monitor_id.as_deref() == Some("MetricKit");
    let exception_name = ["nsexception", "cpp_exception", "user_reported"]
        .into_iter()
        .find_map(|kind| text(&["crash", "error", kind, "name"]));
    let facts = PrintedFacts {
        id: report.id.to_string().to_lowercase(),
        app: summary.app,
        version: summary.version,
        build: summary.build,
        process: summary.process_name,
        pid: report.process_id(),
        device: summary.device_model,
        os: summary.os_name,
        os_version: summary.os_version,
        os_build: summary.os_build,
        kind: enriched.grouping.map(|grouping| grouping.kind.as_str().to_owned()),
        ended: report.evaluate_end().map(|ended| ended.kind.as_str().to_owned()),
        exception: text(&["crash", "error", "mach", "exception_name"]),
        signal: summary.signal,
        address: number(&["crash", "error", "address"]),
        exception_code: number(&["crash", "error", "mach", "code"]),
        exit_code: number(&["crash", "error", "exit_reason", "code"]),
        exception_name,
        reason: summary.reason,
        crashed_thread: summary.crashed_thread,
        threads: report.thread_count(),
        frame_0_exact: frames.first().map(|frame| frame.is_exact),
        frames: printed(&frames),
        last_exception: of_origin(&[BacktraceOrigin::LastException]),
        profile_frames: of_origin(&[BacktraceOrigin::Profile, BacktraceOrigin::CallStackTree]),
        samples: report.build_profile().map(|profile| profile.nodes.iter().map(|node| node.samples).sum()),
        duration_ns: report.duration_nanos(),
        termination_category: text(&["user", "terminationCategory"]).filter(|_| is_metric_kit),
        states: value(&["user", "states"])
            .filter(|_| is_metric_kit)
            .and_then(|states| serde_json::from_slice(states.raw_bytes()).ok()),
    };
    serde_json::to_string(&facts).unwrap_or_default()
}

fn is_thread(backtrace: &Backtrace<'_>) -> bool {
    matches!(backtrace.origin, BacktraceOrigin::Thread | BacktraceOrigin::CrashedThread)
}

/// Returns the position of the first backtrace that `is_wanted`.
fn find(report: &Report<'_>, is_wanted: &dyn Fn(&Backtrace<'_>) -> bool) -> Option<usize> {
    report.backtraces.iter().position(is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts_of(report: &Value) -> Value {
        let bytes = report.to_string();
        let report = Report::read_event(bytes.as_bytes(), &ReadLimits::default()).unwrap();
        serde_json::from_str(&facts(&report)).unwrap()
    }

    fn thread() -> Value {
        json!({ "index": 0, "crashed": true, "backtrace": { "contents": [{ "instruction_addr": 4096 }] } })
    }

    #[test]
    fn a_process_that_jetsam_killed_ran_out_of_memory() {
        let snapshot = |code: u64| json!({ "images": [], "crashInfo": { "exitReason": { "namespace": 1, "code": code } } });
        let error = json!({ "type": "mach", "mach": { "exception_name": "EXC_CRASH" } });
        let in_error = json!({ "type": "mach", "monitor_data": { "Corpse": { "snapshot": snapshot(4) } } });
        for report in [
            json!({ "crash": { "error": error, "threads": [thread()] }, "corpse": snapshot(7) }),
            json!({ "crash": { "error": in_error, "threads": [thread()] } }),
            json!({ "crash": { "error": { "type": "mach", "subtype": "memory_exception" }, "threads": [thread()] } }),
        ] {
            let found = facts_of(&report);
            assert_eq!(
                (&found["kind"], &found["ended"]),
                (&json!("out_of_memory"), &json!("out_of_memory")),
                "{report}"
            );
        }
        // The kernel also kills processes that are idle.
        let idle =
            facts_of(&json!({ "crash": { "error": error, "threads": [thread()] }, "corpse": snapshot(9) }));
        assert_eq!(idle["ended"], "terminated");
    }

    #[test]
    fn durations_have_nanoseconds_and_diagnostics_their_process_and_samples() {
        let hang =
            json!({ "type": "hang", "hang": { "hang_start_nanos": 1_000, "hang_end_nanos": 262_254_917 } });
        let found = facts_of(
            &json!({ "system": { "process_id": 77 }, "crash": { "error": hang, "threads": [thread()] } }),
        );
        assert_eq!((&found["duration_ns"], &found["pid"]), (&json!(262_253_917), &json!(77)));
        let frame =
            json!({ "address": 4_307_992_708_u64, "offsetIntoBinaryTextSegment": 16_516, "sampleCount": 5 });
        let tree = json!({ "callStackPerThread": true,
            "callStacks": [{ "threadAttributed": true, "callStackRootFrames": [frame] }] });
        let payload = json!({ "hangDiagnostics": [{ "callStackTree": tree,
            "diagnosticMetaData": { "hangDuration": "3 sec", "pid": 991 } }] });
        let found = facts_of(&payload);
        assert_eq!((&found["pid"], &found["samples"]), (&json!(991), &json!(5)));
        assert_eq!((&found["kind"], &found["duration_ns"]), (&json!("hang"), &json!(3_000_000_000_u64)));
    }

    #[test]
    fn the_threads_are_those_of_the_crash_in_which_the_handler_crashed() {
        let inner = json!({ "system": { "process_id": 12 }, "crash": { "error": { "type": "mach" },
            "threads": [thread(), { "index": 1 }, { "index": 2 }] } });
        let outer = json!({ "report": { "type": "minimal" }, "recrash_report": inner,
            "crash": { "error": { "type": "signal" }, "crashed_thread": thread() } });
        let found = facts_of(&outer);
        assert_eq!((&found["threads"], &found["pid"]), (&json!(3), &json!(12)));
    }
}
