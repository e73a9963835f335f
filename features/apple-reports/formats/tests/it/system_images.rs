//! Images of the operating system, in reports that have their names only.

use crate::{APP, APP_ID, enriched, metric_kit::payload};
use serde_json::{Value, json};

const KERNEL: u64 = 0x1_de6f_0000;

/// Returns the images of a report that are the system's, and the culprit.
fn system_images(document: &[u8]) -> (Vec<String>, String) {
    let (result, _) = enriched(document);
    let system = result.images.iter().filter(|image| image.system);
    let mut names: Vec<String> = system.map(|image| image.name.clone()).collect();
    names.sort();
    (names, result.grouping.unwrap().culprit.unwrap_or_default())
}

/// Returns a frame of MetricKit, and below it the frames that called it.
fn frame(name: &str, uuid: &str, address: Option<u64>, offset: u64, callers: &Value) -> Value {
    let mut frame = json!({"binaryName": name, "binaryUUID": uuid, "offsetIntoBinaryTextSegment": offset});
    if let Some(address) = address {
        frame["address"] = json!(address);
    }
    if !callers.is_null() {
        frame["subFrames"] = json!([callers]);
    }
    frame
}

/// Returns the stack of an abort in the app: the system's functions, then the app.
fn abort(bases: Option<[u64; 3]>) -> Value {
    let at = |image: usize, offset: u64| bases.map(|bases| bases[image] + offset);
    let app = frame("Shop", APP_ID, at(2, 4096), 4096, &Value::Null);
    let view = frame("UIKitCore", "44444444-2222-3333-8444-000000000002", at(1, 4096), 4096, &app);
    frame("libsystem_kernel.dylib", "44444444-2222-3333-8444-000000000001", at(0, 37_284), 37_284, &view)
}

fn crash_of(stack: &Value) -> Value {
    let mut crash = payload();
    crash["crashDiagnostics"][0]["callStackTree"]["callStacks"] =
        json!([{"threadAttributed": true, "callStackRootFrames": [stack]}]);
    crash
}

#[test]
fn a_payload_has_the_systems_images_by_address_or_by_name() {
    let simulator = 0x7FF8_1234_0000;
    for bases in [
        Some([KERNEL, 0x1_8a00_0000, APP]),
        Some([simulator, simulator + 0x10_0000, APP]),
        // Without addresses the names tell.
        None,
    ] {
        let crash = crash_of(&abort(bases));
        let mut hang =
            json!({"timeStampEnd": crash["timeStampEnd"], "hangDiagnostics": crash["crashDiagnostics"]});
        hang["hangDiagnostics"][0]["diagnosticMetaData"] =
            json!({"bundleIdentifier": "org.example.shop", "hangDuration": "2 sec"});
        let (system, culprit) = system_images(crash.to_string().as_bytes());
        assert_eq!(system, ["UIKitCore", "libsystem_kernel.dylib"], "{bases:?}");
        assert!(culprit.starts_with("Shop + 0x1000"), "{culprit}");
        if bases.is_some() {
            assert_eq!(system_images(hang.to_string().as_bytes()).0, system, "{bases:?}");
        }
    }
}

#[test]
fn two_bugs_that_abort_are_two_groups() {
    let stack = |offset| {
        let app = frame("Shop", APP_ID, Some(APP + offset), offset, &Value::Null);
        let kernel = "44444444-2222-3333-8444-000000000001";
        crash_of(&frame("libsystem_kernel.dylib", kernel, Some(KERNEL + 8), 8, &app)).to_string()
    };
    let group = |log: &str| enriched(log.as_bytes()).0.grouping.unwrap().fingerprint;
    assert_ne!(group(&stack(4096)), group(&stack(8192)));
}

/// Returns a crash as KSCrash's plug-in for MetricKit writes it: images by name only.
fn plug_in(frames: &Value, images: &Value) -> String {
    json!({"report": {"id": "11111111-2222-3333-4444-555555555555", "monitor_id": "MetricKit"},
        "system": {"CFBundleIdentifier": "org.example.shop"}, "binary_images": images,
        "crash": {"error": {"type": "mach", "mach": {"exception": 10}, "signal": {"signal": 6}},
            "threads": [{"index": 0, "crashed": true, "backtrace": {"contents": frames}}]}})
    .to_string()
}

#[test]
fn a_report_of_the_plug_in_has_the_systems_images_and_the_names_of_numbers() {
    let images = json!([
        {"image_addr": KERNEL, "image_size": 0, "name": "libsystem_kernel.dylib", "uuid": "44444444-2222-3333-8444-000000000001"},
        {"image_addr": APP, "image_size": 0, "name": "Shop", "uuid": APP_ID}]);
    let frames = json!([
        {"instruction_addr": KERNEL + 8, "object_addr": KERNEL, "object_uuid": "44444444-2222-3333-8444-000000000001"},
        {"instruction_addr": APP + 4096, "object_addr": APP, "object_uuid": APP_ID}]);
    let document = plug_in(&frames, &images);
    let (system, culprit) = system_images(document.as_bytes());
    assert_eq!(system, ["libsystem_kernel.dylib"]);
    assert!(culprit.starts_with("Shop + 0x1000"), "{culprit}");
    let report =
        unslide_report::Report::read(document.as_bytes(), &unslide_report::ReadLimits::default()).unwrap();
    let summary = report.summary();
    assert_eq!(
        (summary.exception.as_deref(), summary.signal.as_deref()),
        (Some("EXC_CRASH"), Some("SIGABRT"))
    );
}

#[test]
fn offsets_that_the_plug_in_took_for_load_addresses_are_turned() {
    let uuid = "44444444-2222-3333-8444-000000000001";
    let images = json!([
        {"image_addr": 8, "image_size": 0, "name": "libsystem_kernel.dylib", "uuid": uuid},
        {"image_addr": 4096, "image_size": 0, "name": "Shop", "uuid": APP_ID},
        {"image_addr": 4200, "image_size": 0, "name": "Shop", "uuid": APP_ID}]);
    let frames = json!([
        {"instruction_addr": KERNEL + 8, "object_addr": 8, "object_uuid": uuid, "object_name": "libsystem_kernel.dylib"},
        {"instruction_addr": APP + 4096, "object_addr": 4096, "object_uuid": APP_ID, "object_name": "Shop"},
        {"instruction_addr": APP + 4200, "object_addr": 4200, "object_uuid": APP_ID, "object_name": "Shop"}]);
    let document = plug_in(&frames, &images);
    let frames = crate::places(document.as_bytes(), 0);
    assert_eq!((frames[1].offset, frames[2].offset), (4096, 4200));
    let (result, _) = enriched(document.as_bytes());
    assert_eq!(result.images.len(), 2, "an image is listed once");
    assert_eq!(system_images(document.as_bytes()).0, ["libsystem_kernel.dylib"]);
}

#[test]
fn a_text_without_paths_has_the_systems_images() {
    let log = "Incident Identifier: 11111111-2222-3333-4444-555555555555\nCode Type: ARM-64\nException Type: EXC_CRASH (SIGABRT)\n\
        Thread 0 Crashed:\n0   libsystem_kernel.dylib   0x00000001de6f0008 0x1de6f0000 + 8\n\
        1   CoreFoundation   0x000000018b001000 CFRelease + 16\n2   libswiftCore.dylib   0x0000000105001000 0x105000000 + 4096\n\
        3   Shop   0x0000000100001000 0x100000000 + 4096\n";
    let (system, culprit) = system_images(log.as_bytes());
    assert_eq!(system, ["CoreFoundation", "libswiftCore.dylib", "libsystem_kernel.dylib"]);
    assert!(culprit.starts_with("Shop + 0x1000"), "{culprit}");
}
