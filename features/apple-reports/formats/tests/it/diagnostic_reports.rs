//! Diagnostic reports of MetricKit since iOS 27, in Apple's form and in others.

use crate::{enriched, places, readers, report, stripped, translate};
use serde_json::{Value, json};
use unslide_report::{ReadError, ReadLimits, Report};

pub const LANTERN: &str = "11111111-2222-3333-4444-555555555555";
pub const SWIFT: &str = "AAAAAAAA-BBBB-3CCC-8DDD-EEEEEEEEEEEE";
const LANTERN_BASE: u64 = 4_372_824_064;
const SWIFT_BASE: u64 = 6_916_214_784;

/// Returns a frame of the app at an offset.
pub fn frame(offset: u64, inner: &Value) -> Value {
    json!({"binaryUUID": LANTERN, "address": LANTERN_BASE + offset, "offsetIntoBinaryTextSegment": offset, "sampleCount": 1,
        "subFrames": inner})
}

fn environment() -> Value {
    json!({"bundleIdentifier": "org.example.lantern", "applicationVersion": "3.1", "applicationBuildVersion": "412",
        "deviceType": "iPhone16,1", "osVersion": {"platform": "iPhone OS", "number": "27.0", "buildNumber": "24A435"},
        "platformArchitecture": "arm64e", "regionFormat": "NO", "pid": 731, "isTestFlightApp": false,
        "lowPowerModeEnabled": true, "signpostData": [], "states": [{"domain": "org.example.screen", "label": "map",
            "duration": {"value": 12.5, "unit": "s"}, "stableMetadata": {"zoom": {"integer": 7}}}]})
}

/// Returns a crash as a device writes it: a trap of Swift's library, called by the app, with an asynchronous frame.
pub fn crash() -> Value {
    let app = json!([frame(19_480, &json!([frame(47_229, &json!([]))]))]);
    let top = json!({"binaryUUID": SWIFT, "address": SWIFT_BASE + 243_108, "offsetIntoBinaryTextSegment": 243_108,
        "sampleCount": 1, "subFrames": app});
    json!({"version": "2.0.0", "timeRange": {"begin": 799_113_600.25, "end": 799_113_600.25}, "environment": environment(),
        "crashDiagnostic": {"exceptionType": 6, "exceptionCode": 1, "signal": 5,
            "terminationReason": "Namespace SIGNAL, Code 0x5",
            "callStackTree": {"callStackPerThread": true,
                "binaryInfo": [{"uuid": LANTERN, "name": "Lantern"}, {"uuid": SWIFT, "name": "libswiftCore.dylib"}],
                "callStackThreads": [{"threadAttributed": true, "rootFrames": [top]},
                    {"threadAttributed": false, "rootFrames": []}]}}})
}

/// Returns a hang with two roots, states by domain, and neither a version nor a blamed thread.
pub fn hang() -> Value {
    let mut hang = sampled("hangDiagnostic", &json!({"hangDuration": {"value": 2_750, "unit": "ms"}}));
    hang.as_object_mut().unwrap().remove("version");
    hang["environment"]["states"] = json!({});
    hang
}

/// Returns a report with sampled stacks.
fn sampled(kind: &str, measured: &Value) -> Value {
    let mut report = crash();
    report.as_object_mut().unwrap().remove("crashDiagnostic");
    let with_count = |offset: u64, count: u64| {
        let mut frame = frame(offset, &json!([]));
        frame["sampleCount"] = json!(count);
        frame
    };
    report[kind] = measured.clone();
    report[kind]["callStackTree"] = json!({"callStackPerThread": true,
        "binaryInfo": [{"uuid": LANTERN, "name": "Lantern"}], "callStackThreads": [{"threadAttributed": false,
            "rootFrames": [with_count(19_480, 9), with_count(19_936, 4)]}]});
    report
}

pub fn bytes(report: &Value) -> Vec<u8> {
    report.to_string().into_bytes()
}

pub fn tree(report: &mut Value) -> &mut Value {
    &mut report["crashDiagnostic"]["callStackTree"]
}

pub fn refusal(report: &Value) -> String {
    translate(&bytes(report)).unwrap_err().to_string()
}

/// Returns the kind of the group of a report, whether it says that it ended the app, and its measured value.
fn event(report: &Value) -> (String, Option<bool>, Option<u64>) {
    let log = bytes(report);
    let readers = readers();
    let document = readers.open(&log, &ReadLimits::default()).unwrap();
    let read = Report::read_event(document.json(), &ReadLimits::default()).unwrap();
    let (enriched, _) = enriched(&log);
    let kind = enriched.grouping.map(|grouping| grouping.kind.as_str().to_owned());
    (kind.unwrap_or_default(), read.summary().fatal, read.duration_millis())
}

#[test]
fn a_crash_has_the_facts_of_its_report_and_its_environment() {
    let found = report(&bytes(&crash()));
    for (path, expected) in [
        ("/report/timestamp", json!("2026-04-29T00:00:00.25Z")),
        ("/report/monitor_id", json!("MetricKit")),
        ("/system/CFBundleIdentifier", json!("org.example.lantern")),
        ("/system/CFBundleShortVersionString", json!("3.1")),
        ("/system/CFBundleVersion", json!("412")),
        ("/system/system_name", json!("iOS")),
        ("/system/system_version", json!("27.0")),
        ("/system/os_version", json!("24A435")),
        ("/system/machine", json!("iPhone16,1")),
        ("/system/process_id", json!(731)),
        ("/system/low_power_mode_enabled", json!(true)),
        ("/user/regionFormat", json!("NO")),
        ("/user/isTestFlightApp", json!(false)),
        ("/user/state org.example.screen", json!("map")),
        ("/user/state org.example.screen zoom", json!("7")),
        ("/user/states/0/duration", json!("12.5 s")),
        ("/crash/error/mach/exception_name", json!("EXC_BREAKPOINT")),
        ("/crash/error/mach/code", json!(1)),
        ("/crash/error/signal/name", json!("SIGTRAP")),
        ("/crash/error/exit_reason", json!({"code": 5, "namespace": 2})),
        ("/crash/threads/0/crashed", json!(true)),
        ("/crash/threads/1/backtrace/contents", json!([])),
        ("/binary_images/0/name", json!("libswiftCore.dylib")),
        ("/binary_images/0/image_addr", json!(SWIFT_BASE)),
        ("/binary_images/1/image_addr", json!(LANTERN_BASE)),
    ] {
        assert_eq!(found.pointer(path), Some(&expected), "{path}");
    }
    assert_eq!(found["user"].get("notApplesForm"), None, "it is Apple's form");
    let frames = places(&bytes(&crash()), 0);
    let offsets: Vec<(u64, u64, bool)> =
        frames.iter().map(|frame| (frame.offset, frame.lookup, frame.is_exact)).collect();
    // The first frame is a program counter, and the last one is the continuation of an asynchronous function, plus one.
    assert_eq!((offsets[0].0, offsets[0].2), (243_108, true));
    assert_eq!((offsets[1].0, offsets[1].2), (19_480, false));
    assert_eq!(offsets[2].1 & !3, 47_228);
}

#[test]
fn each_kind_is_its_own_event() {
    let mut crash_of = crash();
    crash_of["crashDiagnostic"]["terminationCategory"] = json!("badAccess");
    assert_eq!(event(&crash_of).0, "crash");
    crash_of["crashDiagnostic"]["terminationCategory"] = json!("watchdog");
    assert_eq!(event(&crash_of).0, "hang", "the watchdog ended a hang");
    assert_eq!(report(&bytes(&crash_of))["user"]["terminationCategory"], "watchdog");
    crash_of["crashDiagnostic"]["terminationCategory"] = json!({"rawValue": "fileLock"});
    assert_eq!(event(&crash_of), ("termination".to_owned(), Some(true), None));
    for (kind, measured, expected, millis) in [
        ("hangDiagnostic", json!({"hangDuration": {"value": 2_750, "unit": "ms"}}), "hang", Some(2_750)),
        (
            "cpuExceptionDiagnostic",
            json!({"totalCPUTime": {"value": 12.5, "unit": "s"},
            "totalSampledTime": {"value": 60, "unit": "s"}}),
            "cpu",
            Some(12_500),
        ),
        (
            "diskWriteExceptionDiagnostic",
            json!({"totalBytesWritten": {"value": 1.25, "unit": "MB"}}),
            "disk_write",
            None,
        ),
        (
            "appLaunchDiagnostic",
            json!({"launchDuration": {"value": 21, "unit": "s"}}),
            "launch",
            Some(21_000),
        ),
    ] {
        assert_eq!(event(&sampled(kind, &measured)), (expected.to_owned(), Some(false), millis), "{kind}");
    }
    let mut memory = crash();
    let tree = memory["crashDiagnostic"]["callStackTree"].take();
    memory.as_object_mut().unwrap().remove("crashDiagnostic");
    memory["memoryExceptionDiagnostic"] = json!({"callStackTree": tree});
    assert_eq!(event(&memory), ("out_of_memory".to_owned(), Some(true), None));
    assert_eq!(places(&bytes(&memory), 0).len(), 3, "it has its stack");
    let mut later = memory.clone();
    later["thermalDiagnostic"] = later["memoryExceptionDiagnostic"].take();
    later.as_object_mut().unwrap().remove("memoryExceptionDiagnostic");
    assert_eq!(event(&later).0, "user");
    assert_eq!(report(&bytes(&later))["crash"]["error"]["user_reported"]["name"], "thermalDiagnostic");
}

#[test]
fn samples_have_all_roots_and_inner_frames_in_their_places() {
    let log = bytes(&hang());
    let (found, written) = enriched(&log);
    assert_eq!(found.frames.total, 2);
    let answered: Value = serde_json::from_slice(&written).unwrap();
    let roots = &answered["hangDiagnostic"]["callStackTree"]["callStackThreads"][0]["rootFrames"];
    assert!(roots[0]["symbolication"].is_object() && roots[1]["symbolication"].is_object(), "{roots}");
    let mut several = hang();
    several["hangDiagnostic"]["callStackTree"]["callStackThreads"][0]["rootFrames"] =
        json!([frame(64, &json!([frame(128, &json!([])), frame(256, &json!([frame(512, &json!([]))]))]))]);
    let (found, written) = enriched(&bytes(&several));
    assert_eq!(found.frames.total, 4);
    assert_eq!(stripped(&written), bytes(&several));
    let tree = &report(&bytes(&several))["hangDiagnostics"][0]["callStackTree"];
    assert_eq!(tree["callStackPerThread"], false, "a frame with several inner ones is a caller");
}

#[test]
fn answers_come_off_again_and_the_id_stays() {
    for document in [crash(), hang(), json!({"payload": crash(), "sender": 7})] {
        let log = bytes(&document);
        let (_, written) = enriched(&log);
        assert_ne!(written, log);
        assert_eq!(stripped(&written), log);
        assert_eq!(report(&written)["report"]["id"], report(&log)["report"]["id"]);
    }
}

/// Traps 4, 9, 14 and 15.
#[test]
fn frames_without_a_part_of_their_place_stay_and_count() {
    let mut odd = crash();
    let inner = json!([frame(64, &json!([]))]);
    tree(&mut odd)["callStackThreads"][0]["rootFrames"] = json!([{"subFrames": [
        {"binaryUUID": SWIFT, "offsetIntoBinaryTextSegment": 64, "subFrames": [
            {"address": 74_565, "subFrames": [{"binaryUUID": "99999999-2222-3333-4444-555555555555",
                "address": LANTERN_BASE + 4_096, "offsetIntoBinaryTextSegment": 4_096, "subFrames": inner}]}]}]}]);
    tree(&mut odd)["binaryInfo"] =
        json!([{"uuid": LANTERN, "name": "Lantern"}, {"uuid": SWIFT, "name": "Lantern"}]);
    let found = report(&bytes(&odd));
    let frames = found["crash"]["threads"][0]["backtrace"]["contents"].as_array().unwrap();
    assert_eq!(frames.len(), 5);
    assert_eq!(frames[0], json!({}), "a place for the frame without anything");
    assert_eq!(frames[1]["object_uuid"], SWIFT.to_lowercase());
    assert_eq!(frames[2], json!({"instruction_addr": 74_565}));
    assert_eq!(frames[3].get("object_name"), None, "no name, but the UUID is good for its symbols");
    assert_eq!(frames[4]["object_name"], "Lantern");
    assert_eq!(enriched(&bytes(&odd)).0.frames.total, 5);
}

/// Trap 6.
#[test]
fn all_64_bits_of_codes_and_addresses_count() {
    let mut large = crash();
    large["crashDiagnostic"]["exceptionCode"] = json!(u64::MAX);
    assert_eq!(report(&bytes(&large))["crash"]["error"]["mach"]["code"], u64::MAX);
    large["crashDiagnostic"]["exceptionCode"] = json!("0xFFFFFFFFFFFFFFFE");
    assert_eq!(report(&bytes(&large))["crash"]["error"]["mach"]["code"], u64::MAX - 1);
}

/// Traps 7, 8 and 10.
#[test]
fn the_marked_thread_crashed_and_threads_keep_their_numbers() {
    let with_marks = |marks: [Option<bool>; 3], per_thread: bool| {
        let mut marked = crash();
        let thread =
            |mark: Option<bool>| json!({"threadAttributed": mark, "rootFrames": [frame(64, &json!([]))]});
        tree(&mut marked)["callStackThreads"] =
            json!([{"rootFrames": []}, thread(marks[0]), thread(marks[1]), thread(marks[2])]);
        tree(&mut marked)["callStackPerThread"] = json!(per_thread);
        let found = report(&bytes(&marked));
        let threads = found["crash"]["threads"].as_array().unwrap().clone();
        assert_eq!(threads.len(), 4);
        threads.iter().position(|thread| thread["crashed"] == true)
    };
    assert_eq!(with_marks([Some(false), Some(true), Some(false)], true), Some(2));
    assert_eq!(with_marks([Some(false), Some(true), Some(true)], true), Some(2));
    assert_eq!(with_marks([None, None, None], true), Some(1));
    assert_eq!(with_marks([None, None, None], false), None);
}

/// Trap 16.
#[test]
fn images_of_the_shared_cache_begin_at_pages_of_4_kib() {
    let mut cache = crash();
    tree(&mut cache)["callStackThreads"][0]["rootFrames"][0]["address"] = json!(SWIFT_BASE + 4_096 + 243_108);
    let found = report(&bytes(&cache));
    assert_eq!(found["binary_images"][0]["image_addr"], SWIFT_BASE + 4_096);
}

/// Traps 17 and 19.
#[test]
fn simulated_payloads_and_cut_stacks_are_marked() {
    let simulated = crash().to_string().replace("\"Lantern\"", "\"testBinaryName0\"");
    let found = report(simulated.as_bytes());
    assert_eq!(
        (&found["user"]["simulatedPayload"], &found["system"]["model"]),
        (&json!(true), &json!("simulator"))
    );
    let mut cut = crash();
    tree(&mut cut)["callStackThreads"][0]["rootFrames"] =
        json!([frame(64, &json!([frame(128, &json!([]))]))]);
    assert_eq!(report(&bytes(&cut))["user"]["stackIsCut"], true);
    assert_eq!(report(&bytes(&crash()))["user"].get("stackIsCut"), None, "it ends in a continuation");
    tree(&mut cut)["binaryInfo"] = json!([{"uuid": LANTERN, "name": "dyld"}]);
    assert_eq!(report(&bytes(&cut))["user"].get("stackIsCut"), None);
}

/// Traps 18 and 19.
#[test]
fn the_innermost_frame_is_the_first_one_in_deep_stacks_too() {
    let mut deep = json!([]);
    for offset in (1..=500_u64).rev() {
        deep = json!([frame(64 * offset, &deep)]);
    }
    let mut report = crash();
    tree(&mut report)["callStackThreads"][0]["rootFrames"] = deep.clone();
    let frames = places(&bytes(&report), 0);
    assert_eq!((frames.len(), frames[0].offset, frames[499].offset), (500, 64, 32_000));
    for _ in 0..20 {
        deep = json!([frame(64, &deep)]);
    }
    tree(&mut report)["callStackThreads"][0]["rootFrames"] = deep;
    assert!(matches!(
        translate(&bytes(&report)),
        Err(ReadError::TreeTooDeep { .. } | ReadError::TooDeep { .. })
    ));
}

/// Trap 21.
#[test]
fn an_end_without_a_namespace_or_a_category_is_shown_as_it_is() {
    let mut odd = crash();
    odd["crashDiagnostic"] = json!({"terminationReason": "the app stopped", "callStackTree": odd["crashDiagnostic"]["callStackTree"]});
    assert_eq!(report(&bytes(&odd))["crash"]["error"]["reason"], "the app stopped");
    odd["crashDiagnostic"]["terminationReason"] =
        json!("domain:10 code:0x8BADF00D explanation:[scene-create]");
    assert_eq!(event(&odd).0, "hang");
    odd["crashDiagnostic"]["terminationReason"] = Value::Null;
    odd["crashDiagnostic"]["terminationCategory"] = json!("illegalInstruction");
    assert_eq!(report(&bytes(&odd))["crash"]["error"]["signal"]["name"], "SIGILL");
}

/// Trap 22.
#[test]
fn the_old_and_the_new_form_of_one_crash_are_one_group() {
    let chain = json!([{"binaryUUID": SWIFT, "binaryName": "libswiftCore.dylib", "address": SWIFT_BASE + 243_108,
        "offsetIntoBinaryTextSegment": 243_108, "subFrames": [{"binaryUUID": LANTERN, "binaryName": "Lantern",
            "address": LANTERN_BASE + 19_480, "offsetIntoBinaryTextSegment": 19_480, "subFrames": [{"binaryUUID": LANTERN,
                "binaryName": "Lantern", "address": LANTERN_BASE + 47_229, "offsetIntoBinaryTextSegment": 47_229}]}]}]);
    let old = json!({"timeStampEnd": "2026-04-29 00:00:00", "crashDiagnostics": [{"version": "1.0.0",
        "callStackTree": {"callStackPerThread": true, "callStacks": [{"threadAttributed": true, "callStackRootFrames": chain}]},
        "diagnosticMetaData": {"bundleIdentifier": "org.example.lantern", "appVersion": "3.1", "exceptionType": 6, "signal": 5}}]});
    let group = |document: &Value| {
        let grouping = enriched(&bytes(document)).0.grouping.unwrap();
        (grouping.kind.as_str().to_owned(), grouping.title)
    };
    assert_eq!(group(&old), group(&crash()));
}

/// Traps 5 and 23.
#[test]
fn times_are_of_2001_unless_they_cannot_be() {
    let at = |range: Value| {
        let mut dated = crash();
        dated["timeRange"] = range;
        report(&bytes(&dated))
    };
    let found = at(json!({"begin": 799_113_600, "end": 799_200_000}));
    assert_eq!(found["report"]["timestamp"], "2026-04-30T00:00:00Z");
    assert_eq!(found["user"]["timeRangeBegin"], "2026-04-29T00:00:00Z");
    let found = at(json!({"begin": 1_777_420_800, "end": 1_777_420_800}));
    assert_eq!(found["report"]["timestamp"], "2026-04-29T00:00:00Z");
    let mut swapped = crash();
    swapped["timeRange"] = json!({"begin": 8, "end": 7});
    assert!(refusal(&swapped).contains("`timeRange` ends before it begins"));
}
