//! A lab of causes that the kernel or the log names. Each log is made up from a cause, the way in which the report says it,
//! and what contradicts it: an address that would be a bad pointer by itself, null or an address of the app's image.

use crate::fault_analysis::fault;
use serde_json::{Value, json};

const APP: u64 = 0x1_0000_0000;
const PC: u64 = APP + 0x4000;
const SP: u64 = 0x1_6fdf_0000;
const READ: u64 = 0x9200_0007;
const WRITE: u64 = 0x9200_0047;
const EXECUTE: u64 = 0x8200_0007;

/// A log of the lab.
struct LabLog {
    name: String,
    /// The verdicts that are right; empty if none may be given.
    right: &'static [&'static str],
    report: Value,
}

/// A bad access of arm64 with this code of the kernel.
fn bad_access(code: u64, esr: u64, far: u64) -> Value {
    json!({
        "binary_images": [{"image_addr": APP, "image_size": 0xc000, "name": "/var/Kiosk.app/Kiosk", "uuid": "01".repeat(16),
                           "cpu_type": 16_777_228, "cpu_subtype": 0}],
        "crash": {
            "error": {"type": "mach", "address": far, "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": code},
                      "signal": {"signal": 11, "name": "SIGSEGV"}},
            "threads": [{
                "crashed": true,
                "backtrace": {"contents": [{"instruction_addr": PC}]},
                "registers": {"basic": {"pc": PC, "sp": SP, "lr": PC + 8, "x0": 1}, "exception": {"esr": esr, "far": far}},
            }],
        },
    })
}

fn with_error(mut report: Value, path: &str, value: Value) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = report.pointer_mut(&format!("/crash/error{parent}")).unwrap();
    parent[key] = value;
    report
}

/// An end by the system, without a bad access.
fn killed(namespace: u64, code: u64) -> Value {
    let report = with_error(
        bad_access(0, READ, 0x10),
        "/mach",
        json!({"exception": 10, "exception_name": "EXC_CRASH"}),
    );
    let report = with_error(report, "/signal", json!({"signal": 9, "name": "SIGKILL"}));
    with_error(report, "/exit_reason", json!({"namespace": namespace, "code": code}))
}

/// Addresses that the rules about addresses would judge, each in another way.
const ADDRESSES: [(&str, u64); 5] = [
    ("null", 0),
    ("member of null", 0x28),
    ("page zero", 0x8_0000),
    ("the image", APP + 0x5000),
    ("nowhere", 0x2_8000_0000),
];

fn logs_of_code_signing() -> Vec<LabLog> {
    let mut logs = Vec::new();
    let mut add = |name: String, report| logs.push(LabLog { name, right: &["code_signing"], report });
    for (place, far) in ADDRESSES {
        add(format!("page without signature, {place}"), bad_access(50, READ, far));
        add(format!("executed page without signature, {place}"), bad_access(50, EXECUTE, far));
        let report = with_error(bad_access(2, READ, far), "/exit_reason", json!({"namespace": 3, "code": 2}));
        add(format!("invalid page by namespace, {place}"), report);
        let report = with_error(bad_access(1, READ, far), "/signal/note", "Code Signature Invalid".into());
        add(format!("words behind the signal, {place}"), report);
    }
    for code in 1..=5 {
        add(format!("launch constraint {code}"), killed(3, code));
    }
    logs
}

fn logs_of_pages() -> Vec<LabLog> {
    let notes = ["protection class does not allow pagein", "vm_fault hit memory error", "I/O error"];
    let mut logs = Vec::new();
    for (place, far) in ADDRESSES {
        for (name, code, esr) in
            [("read", 10, READ), ("written", 10, WRITE), ("executed", 10, EXECUTE), ("destroyed", 9, READ)]
        {
            let report = with_error(bad_access(code, esr, far), "/mach/kernel_notes", json!(notes));
            logs.push(LabLog {
                name: format!("{name} page, {place}"),
                right: &["page_not_readable"],
                report,
            });
        }
    }
    logs
}

fn logs_of_memory_tags() -> Vec<LabLog> {
    let mut logs = Vec::new();
    let mut add = |name: String, report| logs.push(LabLog { name, right: &["memory_tag"], report });
    for (place, far) in ADDRESSES {
        let tagged = far | 0x0700_0000_0000_0000;
        add(format!("status of the processor, {place}"), bad_access(1, 0x9200_0011, tagged));
        add(format!("code, {place}"), bad_access(0x106, READ, tagged));
        let words = json!(["EXC_ARM_MTE_TAGCHECK_FAIL at 0x0700000280000000"]);
        add(
            format!("words of the log, {place}"),
            with_error(bad_access(1, READ, tagged), "/mach/words", words),
        );
    }
    logs
}

fn logs_of_recursions() -> Vec<LabLog> {
    let mut logs = Vec::new();
    let mut add = |name: String, report: Value, left_out: u64, frames: usize| {
        let frame = json!({"instruction_addr": PC, "symbol_name": "descend", "symbol_addr": PC - 16});
        let mut report = report;
        let thread = report.pointer_mut("/crash/threads/0").unwrap();
        thread["backtrace"]["contents"] = vec![frame; frames].into();
        thread["left_out_frames"] = left_out.into();
        logs.push(LabLog { name, right: &["stack_overflow"], report });
    };
    let near = SP - 32;
    for frames in [20, 45, 90] {
        add(format!("{frames} frames are listed"), bad_access(2, WRITE, near), 43_951, frames);
    }
    for far in [near, SP - 0x4_0000, SP - 0x40_0000] {
        let words = json!(["Thread stack size exceeded due to excessive recursion"]);
        add(
            format!("the log says so at {far:#x}"),
            with_error(bad_access(2, WRITE, far), "/mach/words", words),
            900,
            45,
        );
    }
    let region = json!(["STACK GUARD  16ccb4000-1704b8000 [ 56.0M] ---/rwx SM=NUL"]);
    add("the stack's guard".to_owned(), with_error(bad_access(2, WRITE, near), "/mach/words", region), 0, 3);
    logs
}

/// The kernel gives a reason of which no rule says more: a verdict about a pointer would be a guess.
fn logs_without_verdict() -> Vec<LabLog> {
    let mut logs = Vec::new();
    let mut add = |name: String, report| logs.push(LabLog { name, right: &[], report });
    for (place, far) in ADDRESSES {
        for code in [3, 6, 8, 14, 53] {
            add(format!("kernel code {code}, {place}"), bad_access(code, READ, far));
        }
        for namespace in [7, 23, 25, 34] {
            let report = bad_access(1, READ, far);
            let report = with_error(report, "/exit_reason", json!({"namespace": namespace, "code": 1}));
            add(format!("namespace {namespace}, {place}"), report);
        }
        let guard = with_error(
            bad_access(0, READ, far),
            "/mach",
            json!({"exception": 12, "exception_name": "EXC_GUARD", "code": 0x4000}),
        );
        add(format!("a guard, {place}"), guard);
    }
    logs
}

/// An address alone never makes a verdict certain.
#[test]
fn a_verdict_that_rests_on_the_address_alone_is_likely() {
    for code in [0, 1, 2] {
        for (place, far) in ADDRESSES {
            let found = fault(bad_access(code, READ, far).to_string().as_bytes());
            assert_eq!(found["confidence"], "likely", "{code} {place}: {found}");
            assert!(found["sentence"].as_str().unwrap().contains("probably"), "{found}");
        }
    }
    let found = fault(bad_access(2, READ, 0x2_8000_0000).to_string().as_bytes());
    assert!(!found["sentence"].as_str().unwrap().contains("not mapped"), "{found}");
}

#[test]
fn the_kernels_cause_comes_before_the_address() {
    let labs = [
        logs_of_code_signing(),
        logs_of_pages(),
        logs_of_memory_tags(),
        logs_of_recursions(),
        logs_without_verdict(),
    ];
    for lab in &labs {
        assert!(lab.len() >= 5);
    }
    for log in labs.iter().flatten() {
        let found = fault(log.report.to_string().as_bytes());
        let verdict = found["verdict"].as_str();
        assert_eq!(verdict.is_some(), !log.right.is_empty(), "{}: {found}", log.name);
        assert!(verdict.is_none_or(|verdict| log.right.contains(&verdict)), "{}: {found}", log.name);
        if verdict.is_some() {
            let is_likely = found["confidence"] == "likely";
            assert_eq!(found["sentence"].as_str().unwrap().contains("probably"), is_likely, "{found}");
        }
    }
}

#[test]
fn words_that_another_namespace_contradicts_are_likely() {
    let report = with_error(bad_access(1, READ, 0x10), "/signal/note", "CODESIGNING".into());
    let report = with_error(report, "/exit_reason", json!({"namespace": 2, "code": 11}));
    let found = fault(report.to_string().as_bytes());
    assert_eq!((&found["verdict"], &found["confidence"]), (&"code_signing".into(), &"likely".into()));
}

#[test]
fn a_failed_authentication_is_certain_if_the_kernel_names_it() {
    let far = 0x0020_0002_81a0_4110;
    let judged = |report: &Value| {
        let found = fault(report.to_string().as_bytes());
        (
            found["verdict"].as_str().unwrap_or("none").to_owned(),
            found["confidence"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let pointer = |confidence: &str| ("pointer_authentication".to_owned(), confidence.to_owned());
    assert_eq!(judged(&bad_access(0x105, READ, far)), pointer("certain"));
    let killed = with_error(bad_access(1, READ, far), "/exit_reason", json!({"namespace": 28, "code": 1}));
    assert_eq!(judged(&killed), pointer("certain"));
    let words = json!([
        "KERN_INVALID_ADDRESS at 0x0020000281a04110 -> 0x0000000281a04110 (possible pointer authentication failure)"
    ]);
    assert_eq!(judged(&with_error(bad_access(1, READ, far), "/mach/words", words)), pointer("likely"));
}

#[test]
fn a_page_is_named_by_the_address_of_the_kernel() {
    let report = with_error(bad_access(50, READ, 0x10), "/address", (APP + 0x4028).into());
    let found = fault(report.to_string().as_bytes());
    assert_eq!(found["sentence"], "The page of address 0x100004028 in Kiosk has no valid code signature.");
}

#[test]
fn a_page_that_cannot_be_read_is_named_with_its_image_and_the_kernels_note() {
    let notes = json!(["protection class does not allow pagein"]);
    let report = with_error(bad_access(10, READ, APP + 0x5000), "/mach/kernel_notes", notes);
    let found = fault(report.to_string().as_bytes());
    assert_eq!(
        found["sentence"],
        "The system could not read the page of address 0x100005000 in Kiosk: protection class does not allow pagein."
    );
    assert_eq!(found["access"], json!({"kind": "read", "address": APP + 0x5000}));
    assert!(found["evidence"].to_string().contains(r#"{"kernel_code":10}"#), "{found}");
}
