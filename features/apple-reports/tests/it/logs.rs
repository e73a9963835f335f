//! Facts of a log.

use crate::{APP, APP_ID, body, enriched, frame, log_of, report};
use serde_json::json;
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::Plan;

#[test]
fn a_log_has_the_facts_of_its_header_and_its_crash() {
    let report = report(&log_of(&body()));
    assert_eq!(report["report"]["id"], "11111111-2222-3333-4444-555555555555");
    assert_eq!(report["report"]["timestamp"], "2026-03-02T10:11:11.9012+09:00");
    let system = &report["system"];
    for (key, expected) in [
        ("CFBundleIdentifier", json!("org.example.shop")),
        ("CFBundleShortVersionString", json!("4.2.0")),
        ("CFBundleVersion", json!("4201")),
        ("app_uuid", json!(APP_ID)),
        ("system_name", json!("iOS")),
        ("system_version", json!("18.3.1")),
        ("os_version", json!("22D72")),
        ("machine", json!("iPhone16,1")),
        ("process_name", json!("Shop")),
        ("process_id", json!(4242)),
        ("cpu_arch", json!("arm64")),
    ] {
        assert_eq!(system[key], expected, "{key}");
    }
    assert!(!report.to_string().contains("0123456789abcdef0123456789abcdef01234567"), "the key is hashed");
    let error = &report["crash"]["error"];
    assert_eq!(error["type"], "mach");
    assert_eq!(error["mach"]["exception_name"], "EXC_BAD_ACCESS");
    assert_eq!(error["mach"]["code_name"], "KERN_INVALID_ADDRESS");
    assert_eq!((&error["signal"]["name"], &error["signal"]["signal"]), (&json!("SIGSEGV"), &json!(11)));
    assert_eq!(error["address"], json!(18_446_744_073_709_551_608_u64), "exact beyond a double");
    assert_eq!(error["exit_reason"]["code"], 11);
    let threads = &report["crash"]["threads"];
    assert_eq!((&threads[0]["crashed"], &threads[1]["crashed"]), (&json!(false), &json!(true)));
    assert_eq!(threads[0]["name"], "worker");
    assert_eq!(threads[1]["dispatch_queue"], "com.apple.main-thread");
    assert_eq!(threads[1]["backtrace"]["contents"][0]["instruction_addr"], json!(APP + 4096));
    assert_eq!(report["binary_images"].as_array().unwrap().len(), 2, "the absent image is none");
}

#[test]
fn facts_of_the_crash_replace_those_of_a_missing_header() {
    let mut body = body();
    body["os_version"] = json!("macOS 15.3.1 (24D70)");
    body["bundleInfo"] = json!({"CFBundleIdentifier": "org.example.shop", "CFBundleShortVersionString": "4.2.0",
        "CFBundleVersion": "4201"});
    let report = report(body.to_string().as_bytes());
    assert_eq!(report["report"]["id"], "11111111-2222-3333-4444-555555555555");
    assert_eq!(report["system"]["CFBundleIdentifier"], "org.example.shop");
    assert_eq!(report["system"]["CFBundleVersion"], "4201");
    assert_eq!(report["system"]["system_name"], "macOS");
}

#[test]
fn an_uncaught_exception_has_its_name_its_reason_and_its_backtrace() {
    let mut body = body();
    body["exception"] =
        json!({"type": "EXC_CRASH", "signal": "SIGABRT", "codes": "0x0000000000000000, 0x0000000000000000"});
    body["asi"] = json!({
        "libc++abi.dylib": ["terminating due to uncaught exception of type NSException"],
        "CoreFoundation": ["*** Terminating app due to uncaught exception 'NSRangeException', reason: 'it's beyond 7'"]});
    body["lastExceptionBacktrace"] = json!([frame(1, 160), frame(0, 8192)]);
    let report = report(&log_of(&body));
    let error = &report["crash"]["error"];
    assert_eq!(error["type"], "nsexception");
    assert_eq!(error["nsexception"]["name"], "NSRangeException");
    assert_eq!(error["reason"], "it's beyond 7");
    let contents = &report["crash"]["last_exception_backtrace"]["contents"];
    assert_eq!(contents.as_array().unwrap().len(), 2);
    assert_eq!(contents[1]["instruction_addr"], json!(APP + 8192));
}

#[test]
fn an_exception_of_cpp_has_its_type_and_a_termination_its_details() {
    let mut cpp = body();
    cpp["asi"] = json!({"libc++abi.dylib": ["terminating due to uncaught exception of type std::runtime_error: no cart"]});
    let error = &report(&log_of(&cpp))["crash"]["error"];
    assert_eq!(error["type"], "cpp_exception");
    assert_eq!(
        (&error["cpp_exception"]["name"], &error["reason"]),
        (&json!("std::runtime_error"), &json!("no cart"))
    );
    let mut ended = body();
    ended["termination"] = json!({"namespace": "TCC", "code": 0, "details": ["a privacy key is missing"]});
    assert_eq!(report(&log_of(&ended))["crash"]["error"]["reason"], "a privacy key is missing");
    ended["termination"] = json!({"namespace": "FRONTBOARD", "code": 2_343_432_205_u64});
    let error = &report(&log_of(&ended))["crash"]["error"];
    assert_eq!(
        (&error["reason"], &error["exit_reason"]["code"]),
        (&json!("FRONTBOARD 0x8badf00d"), &json!(2_343_432_205_u64))
    );
}

/// The report that KSCrash writes of the same crash.
fn kscrash_report() -> Vec<u8> {
    let translated = report(&log_of(&body()));
    let contents = |offsets: &[u64]| {
        let frames = offsets.iter().map(|offset| json!({"instruction_addr": offset, "object_addr": if *offset < crate::LIBRARY { APP } else { crate::LIBRARY }}));
        json!({"contents": frames.collect::<Vec<_>>(), "skipped": 0})
    };
    json!({"report": {"id": "99999999-2222-3333-4444-555555555555", "type": "standard", "version": "3.6.0"},
           "system": {"CFBundleIdentifier": "org.example.shop", "CFBundleShortVersionString": "4.2.0", "CFBundleVersion": "4201",
                      "cpu_arch": "arm64"},
           "binary_images": translated["binary_images"],
           "crash": {"error": {"type": "mach", "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1, "code_name": "KERN_INVALID_ADDRESS"},
                               "signal": {"signal": 11, "name": "SIGSEGV"}, "address": 18_446_744_073_709_551_608_u64},
                     "threads": [{"index": 0, "crashed": true, "registers": {"basic": {"pc": APP + 4096}},
                                  "backtrace": contents(&[APP + 4096, APP + 4200, crate::LIBRARY + 64])}]}})
        .to_string()
        .into_bytes()
}

#[test]
fn a_log_and_a_report_of_the_same_crash_are_one_group() {
    let (of_log, _) = enriched(&log_of(&body()));
    let bytes = kscrash_report();
    let report = Report::read_event(&bytes, &ReadLimits::default()).unwrap();
    let of_report = Plan::new(&report).enrich(&|_| None, &unslide_symbolicate::Context::default());
    let (of_log, of_report) = (of_log.grouping.unwrap(), of_report.grouping.unwrap());
    assert_eq!(of_log.fingerprint, of_report.fingerprint, "{of_log:?} {of_report:?}");
    assert_eq!(of_log.title, of_report.title);
}
