//! Crash diagnostics of MetricKit.

use crate::{APP, APP_ID, enriched, places, readers, report, stripped, translate};
use serde_json::{Value, json};
use unslide_report::{ReadError, ReadLimits, Report};

const SYSTEM_ID: &str = "B1B2C3D4-0000-3111-8222-0123456789AB";

/// Returns a chain of frames of the app, the innermost first, with the system's image as the outermost.
fn chain(offsets: &[u64], field: impl Fn(u64) -> u64 + Copy) -> Value {
    let mut frames = json!([{"binaryUUID": SYSTEM_ID, "binaryName": "dyld", "address": 0x1_8000_0040_u64,
        "offsetIntoBinaryTextSegment": 0x40, "sampleCount": 1}]);
    for offset in offsets.iter().rev() {
        frames = json!([{"binaryUUID": APP_ID.to_uppercase(), "binaryName": "Shop", "address": APP + offset,
            "offsetIntoBinaryTextSegment": field(*offset), "sampleCount": 1, "subFrames": frames}]);
    }
    frames
}

/// Returns a payload of one crash.
pub fn payload() -> Value {
    json!({"timeStampBegin": "2026-03-01 15:00:00", "timeStampEnd": "2026-03-02 15:00:00", "crashDiagnostics": [diagnostic()]})
}

fn diagnostic() -> Value {
    json!({"version": "1.0.0",
        "callStackTree": {"callStackPerThread": true, "callStacks": [
            {"threadAttributed": false, "callStackRootFrames": chain(&[], |offset| offset)},
            {"threadAttributed": true, "callStackRootFrames": chain(&[4096, 4200, 4200], |offset| offset)}]},
        "diagnosticMetaData": {"appBuildVersion": "4201", "appVersion": "4.2.0", "regionFormat": "JP",
            "osVersion": "iPhone OS 18.3.1 (22D72)", "deviceType": "iPhone16,1", "platformArchitecture": "arm64e",
            "bundleIdentifier": "org.example.shop", "pid": 4242, "exceptionType": 1, "exceptionCode": u64::MAX, "signal": 11,
            "terminationReason": "Namespace SIGNAL, Code 0xb",
            "virtualMemoryRegionInfo": "0x10 is not in any region."}})
}

#[test]
fn a_crash_has_the_facts_of_its_diagnostic() {
    let report = report(payload().to_string().as_bytes());
    assert_eq!(report["report"]["timestamp"], "2026-03-02T15:00:00+00:00");
    for (key, expected) in [
        ("CFBundleIdentifier", json!("org.example.shop")),
        ("CFBundleVersion", json!("4201")),
        ("system_name", json!("iOS")),
        ("os_version", json!("22D72")),
        ("machine", json!("iPhone16,1")),
        ("process_id", json!(4242)),
    ] {
        assert_eq!(report["system"][key], expected, "{key}");
    }
    let error = &report["crash"]["error"];
    let words = json!(["0x10 is not in any region."]);
    let mach = json!({"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": u64::MAX, "words": words});
    assert_eq!(error["mach"], mach);
    assert_eq!((&error["signal"]["name"], &error["address"]), (&json!("SIGSEGV"), &json!(16)));
    assert_eq!((&error["exit_reason"]["code"], &error["reason"]), (&json!(11), &Value::Null));
    let threads = report["crash"]["threads"].as_array().unwrap();
    assert_eq!((&threads[0]["crashed"], &threads[1]["crashed"]), (&json!(false), &json!(true)));
    assert_eq!(threads[1]["backtrace"]["contents"].as_array().unwrap().len(), 4, "equal frames stay");
    assert_eq!(report["binary_images"].as_array().unwrap().len(), 2);
}

#[test]
fn an_uncaught_exception_has_its_name_and_its_message() {
    let mut payload = payload();
    let metadata = &mut payload["crashDiagnostics"][0]["diagnosticMetaData"];
    metadata["exceptionReason"] =
        json!({"composedMessage": "it is beyond 7", "exceptionName": "NSRangeException"});
    metadata["terminationReason"] = json!("FRONTBOARD 1 <RBSTerminateContext| domain:10 code:0x8BADF00D>");
    let error = report(payload.to_string().as_bytes())["crash"]["error"].clone();
    assert_eq!(
        (&error["type"], &error["nsexception"]["name"]),
        (&json!("nsexception"), &json!("NSRangeException"))
    );
    assert_eq!(
        (&error["reason"], &error["exit_reason"]["code"]),
        (&json!("it is beyond 7"), &json!(0x8BAD_F00D_u64))
    );
}

#[test]
fn a_kill_by_jetsam_has_its_namespace() {
    let mut payload = payload();
    let metadata = &mut payload["crashDiagnostics"][0]["diagnosticMetaData"];
    metadata["terminationReason"] = json!("Namespace JETSAM, Code 0x7");
    let log = payload.to_string();
    let error = report(log.as_bytes())["crash"]["error"].clone();
    assert_eq!(error["exit_reason"], json!({"code": 7, "namespace": 1}));
    let (result, _) = enriched(log.as_bytes());
    assert_eq!(result.grouping.unwrap().kind.as_str(), "out_of_memory");
}

#[test]
fn frame_0_is_exact_and_the_others_return() {
    let log = payload().to_string();
    let frames = places(log.as_bytes(), 1);
    assert!(frames[0].is_exact && frames[0].lookup == 4096);
    assert_eq!((frames[1].offset, frames[1].lookup), (4200, 4199));
}

#[test]
fn a_load_address_in_the_field_of_the_offset_is_recognised() {
    let mut old = payload();
    let stacks = &mut old["crashDiagnostics"][0]["callStackTree"]["callStacks"];
    stacks[1]["callStackRootFrames"] = chain(&[4096, 4200, 4200], |_| APP);
    let offsets = |log: &Value| -> Vec<u64> {
        places(log.to_string().as_bytes(), 1).iter().map(|frame| frame.offset).collect()
    };
    assert_eq!(offsets(&old), offsets(&payload()));
}

#[test]
fn a_stack_that_begins_with_its_outermost_frame_is_turned() {
    let mut turned = payload();
    let frame = |uuid: &str, name: &str, address: u64, offset: u64| json!({"binaryUUID": uuid, "binaryName": name, "address": address, "offsetIntoBinaryTextSegment": offset});
    let mut outermost = frame(SYSTEM_ID, "dyld", 0x1_8000_0040, 0x40);
    outermost["subFrames"] = json!([frame(APP_ID, "Shop", APP + 4096, 4096)]);
    turned["crashDiagnostics"][0]["callStackTree"]["callStacks"][1]["callStackRootFrames"] =
        json!([outermost]);
    let log = turned.to_string();
    assert!(places(log.as_bytes(), 1)[0].offset == 4096);
    let (_, written) = enriched(log.as_bytes());
    assert_eq!(stripped(&written), log.as_bytes());
}

/// Proves: unchanged-bytes
#[test]
fn answers_are_the_last_members_of_frames_and_of_the_payload() {
    let single = diagnostic();
    let tree = single["callStackTree"].clone();
    for log in [
        payload().to_string(),
        serde_json::to_string_pretty(&payload()).unwrap(),
        single.to_string(),
        tree.to_string(),
    ] {
        let (result, written) = enriched(log.as_bytes());
        assert_eq!(result.frames.total, 5, "{log}");
        let answered: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(answered["symbolication"]["version"], 1);
        assert_eq!(
            String::from_utf8_lossy(&written).matches("\"status\":\"missing\"").count(),
            7,
            "five frames and two images"
        );
        assert_eq!(stripped(&written), log.as_bytes());
        assert_eq!(enriched(&written).1, written);
        let id = |bytes: &[u8]| Report::read_stored(&translate(bytes).unwrap().json).unwrap().id;
        assert_eq!(id(&written), id(log.as_bytes()));
    }
}

#[test]
fn a_payload_of_several_diagnostics_becomes_a_report_of_each() {
    let mut several = payload();
    let hang = json!({"callStackTree": {"callStackPerThread": false, "callStacks": [{"callStackRootFrames": chain(&[4096], |o| o)}]},
        "diagnosticMetaData": {"hangDuration": "20 sec", "bundleIdentifier": "org.example.shop"}});
    several["crashDiagnostics"] = json!([diagnostic(), diagnostic()]);
    several["hangDiagnostics"] = json!([hang]);
    let bytes = several.to_string().into_bytes();
    let error = readers().translate(&bytes, &ReadLimits::default()).unwrap_err();
    assert!(
        matches!(error, ReadError::Diagnostics { count: 3 }) && error.to_string().contains("/v1/reports"),
        "{error}"
    );
    let parts = readers().split_document(&bytes, &ReadLimits::default()).unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for (at, part) in parts.iter().enumerate() {
        let readers = readers();
        let document = readers.open(part, &ReadLimits::default()).unwrap();
        let report = Report::read_event(document.json(), &ReadLimits::default()).unwrap();
        assert_eq!(report.diagnostic().is_some(), at == 2, "a hang among crashes keeps its kind");
        ids.insert(report.id);
    }
    assert_eq!((parts.len(), ids.len()), (3, 3));
    assert_eq!(readers().split_document(&bytes, &ReadLimits::default()).unwrap(), parts);
}

#[test]
fn frames_without_an_address_a_name_or_an_image_are_read() {
    let mut odd = payload();
    odd["crashDiagnostics"][0]["callStackTree"]["callStacks"] = json!([{"callStackRootFrames": [
        {"binaryUUID": APP_ID, "offsetIntoBinaryTextSegment": 4096, "subFrames": [
            {"binaryUUID": null, "address": 74565, "offsetIntoBinaryTextSegment": 123, "sampleCount": 0, "subFrames": []}]}]}]);
    let log = odd.to_string();
    let frames = places(log.as_bytes(), 0);
    assert_eq!(frames[0].offset, 4096);
    // The address is made up, because only the offset is known: the answer says so.
    let (_, written) = enriched(log.as_bytes());
    let answered: Value = serde_json::from_slice(&written).unwrap();
    let stack = &answered["crashDiagnostics"][0]["callStackTree"]["callStacks"][0]["callStackRootFrames"][0];
    assert_eq!(stack["symbolication"]["approximate"], true, "{stack}");
    assert!(report(log.as_bytes())["crash"]["threads"][0]["crashed"].as_bool().unwrap(), "the only one");
}

#[test]
fn deep_stacks_are_read_up_to_the_limit_in_time_that_grows_with_their_size() {
    let nested = |count: usize| {
        let begin =
            "{\"binaryUUID\":\"a1b2c3d4-0000-3111-8222-0123456789ab\",\"address\":4294971392,\"subFrames\":["
                .repeat(count);
        format!(
            "{{\"callStackPerThread\":true,\"callStacks\":[{{\"callStackRootFrames\":[{begin}{}]}}]}}",
            "]}".repeat(count)
        )
    };
    assert_eq!(enriched(nested(500).as_bytes()).0.frames.total, 500);
    assert!(matches!(
        translate(nested(600).as_bytes()),
        Err(ReadError::TreeTooDeep { .. } | ReadError::TooDeep { .. })
    ));
}
