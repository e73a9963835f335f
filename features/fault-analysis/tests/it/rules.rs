//! Each rule of the verdict on a small report.

use crate::fault_analysis::fault;
use serde_json::{Value, json};

const PC: u64 = 0x1_0000_4000;
const SP: u64 = 0x1_6fdf_0000;
const READ: u64 = 0x9200_0006;
const WRITE: u64 = 0x9200_0046;

/// A Mach exception on arm64, with a frame in an app at `PC`.
fn arm64(exception: u64, esr: u64, far: u64) -> Value {
    json!({
        "binary_images": [
            {"image_addr": 0x1_0000_0000_u64, "image_size": 0x8000, "name": "/var/Shop.app/Shop", "uuid": "01".repeat(16),
             "cpu_type": 16_777_228, "cpu_subtype": 0},
            {"image_addr": 0x1_a000_0000_u64, "image_size": 0x8000, "name": "/usr/lib/libobjc.A.dylib",
             "uuid": "02".repeat(16), "cpu_type": 16_777_228, "cpu_subtype": 2},
        ],
        "crash": {
            "error": {"type": "mach", "mach": {"exception": exception}, "signal": {"signal": 11}},
            "threads": [{
                "crashed": true,
                "backtrace": {"contents": [{"instruction_addr": PC}]},
                "registers": {"basic": {"pc": PC, "sp": SP, "lr": PC + 8, "x0": 1},
                              "exception": {"esr": esr, "far": far}},
                "stack": {},
            }],
        },
    })
}

/// The same on x86_64.
fn x86_64(exception: u64, trapno: u64, err: u64, address: u64) -> Value {
    let mut report = arm64(exception, 0, 0);
    let registers = json!({"basic": {"rip": PC, "rsp": SP, "rdi": 1},
                           "exception": {"trapno": trapno, "err": err, "faultvaddr": address}});
    *thread(&mut report, "/registers") = registers;
    for image in report["binary_images"].as_array_mut().unwrap() {
        (image["cpu_type"], image["cpu_subtype"]) = (16_777_223.into(), 3.into());
    }
    report
}

fn thread<'r>(report: &'r mut Value, path: &str) -> &'r mut Value {
    report.pointer_mut(&format!("/crash/threads/0{path}")).unwrap()
}

fn found(report: &Value) -> Value {
    fault(report.to_string().as_bytes())
}

fn verdict(report: &Value) -> String {
    found(report)["verdict"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn the_rules_decide_in_their_order() {
    for (report, expected) in [
        (arm64(3, 0xb200_0000, 0), "none"),
        (x86_64(3, 0, 0, 0), "divide_by_zero"),
        (arm64(6, 0xf200_0001, 0), "trap"),
        (x86_64(2, 6, 0, 0), "trap"),
        (x86_64(6, 3, 0, 0), "trap"),
        // An undefined instruction, a misaligned pc, a failed authentication.
        (arm64(2, 0x0200_0000, 0), "none"),
        (arm64(1, 0x8a00_0000, 1), "none"),
        (arm64(1, 0x7200_0000, 0), "none"),
        (arm64(1, 0x9200_0021, 0x2_8000_0001), "misaligned"),
        (arm64(1, 0x8200_0006, 0x2_8000_0000), "execute_data"),
        (arm64(1, READ, 0), "null_pointer"),
        (arm64(1, READ, 4_095), "null_pointer"),
        (arm64(1, READ, 4_096), "unknown"),
        (arm64(1, READ, 0xffff_ffff), "unknown"),
        (arm64(1, READ, 0x1_0000_0000), "invalid_pointer"),
        // Data accesses ignore the top byte.
        (arm64(1, READ, 0x0100_0000_0000_0028), "null_pointer"),
        (arm64(1, 0x9200_004f, 0x1_0000_1000), "write_to_read_only"),
        (arm64(1, 0x9200_000f, 0x1_0000_1000), "invalid_pointer"),
        // Near the stack pointer, but the device could read the stack.
        (arm64(1, WRITE, SP - 100), "invalid_pointer"),
        (x86_64(1, 14, 4, 0x28), "null_pointer"),
        (x86_64(1, 14, 7, 0x1_0000_1000), "write_to_read_only"),
        (x86_64(1, 13, 0, 0), "invalid_pointer"),
    ] {
        assert_eq!(verdict(&report), expected, "{report}");
    }
}

#[test]
fn an_abort_is_an_exception_and_a_signal() {
    let mut report = arm64(10, 0x5600_0080, 0);
    report["crash"]["error"] = json!({"type": "signal", "mach": {"exception": 10}, "signal": {"signal": 6}});
    assert_eq!(verdict(&report), "abort");
    report["crash"]["error"]["signal"]["signal"] = 9.into();
    assert_eq!(verdict(&report), "none");
    report["crash"]["error"] = json!({"type": "nsexception", "signal": {"signal": 6}});
    assert_eq!(verdict(&report), "none");
}

#[test]
fn a_call_of_null_names_no_address_of_the_caller() {
    let mut report = arm64(1, 0x8200_0006, 0);
    *thread(&mut report, "/registers/basic/pc") = 0.into();
    let found = found(&report);
    assert_eq!(found["verdict"], "null_call");
    assert_eq!(found["sentence"], "The crash calls a null function pointer.");
    assert!(!found.to_string().contains(&(PC + 8).to_string()), "{found}");
}

#[test]
fn a_stack_overflow_needs_a_second_sign() {
    let mut report = arm64(1, WRITE, SP - 16_384);
    *thread(&mut report, "/stack") = json!({"error": "Stack contents not accessible"});
    assert_eq!(verdict(&report), "stack_overflow");
    let far = arm64(1, WRITE, SP - 16_385);
    assert_eq!(verdict(&far), "invalid_pointer");
    let recursion = |frames: usize| {
        let frame = json!({"instruction_addr": PC, "symbol_name": "descend", "symbol_addr": PC - 16});
        let mut report = arm64(1, WRITE, SP - 100);
        *thread(&mut report, "/backtrace/contents") = vec![frame; frames].into();
        report
    };
    assert_eq!(verdict(&recursion(100)), "invalid_pointer");
    let full = found(&recursion(101));
    assert_eq!(full["verdict"], "stack_overflow");
    assert_eq!(full["evidence"][3], json!({"recursion": 101, "function": "descend"}));
}

#[test]
fn a_freed_receiver_needs_a_function_of_the_runtime_and_an_unknown_type() {
    let freed = |symbol: &str, kind: &str| {
        let mut report = arm64(1, READ, 0x55_5555_5555_5560);
        let at = 0x1_a000_1000_u64;
        let frame = json!({"instruction_addr": at, "symbol_name": symbol, "symbol_addr": at - 8});
        *thread(&mut report, "/backtrace/contents") = vec![frame].into();
        *thread(&mut report, "/registers/basic/pc") = at.into();
        *thread(&mut report, "") = {
            let mut own = thread(&mut report, "").clone();
            own["notable_addresses"] = json!({"x0": {"type": kind, "last_deallocated_obj": "ShopCart"}});
            own
        };
        found(&report)
    };
    let found = freed("objc_msgSend", "unknown");
    assert_eq!(found["verdict"], "freed_memory");
    assert_eq!(found["abstained"][0]["reason"], "frame_in_system");
    assert_eq!(freed("objc_msgSend", "objc_object")["verdict"], "invalid_pointer");
    assert_eq!(freed("objc_setProperty", "unknown")["verdict"], "invalid_pointer");
}

#[test]
fn a_failed_authentication_is_likely_on_arm64e_only() {
    let mut report = arm64(1, READ, 0x0020_0002_81a0_4110);
    assert_eq!(verdict(&report), "invalid_pointer");
    report["binary_images"][0]["cpu_subtype"] = 2.into();
    let found = found(&report);
    assert_eq!(
        (&found["verdict"], &found["confidence"]),
        (&"pointer_authentication".into(), &"likely".into())
    );
    // Both bits are set in no failed authentication, and the rest has to be an address.
    assert_eq!(verdict(&with_far(&report, 0x0060_0002_81a0_4110)), "invalid_pointer");
    assert_eq!(verdict(&with_far(&report, 0x0020_0000_0000_0110)), "invalid_pointer");
}

fn with_far(report: &Value, far: u64) -> Value {
    let mut report = report.clone();
    *thread(&mut report, "/registers/exception/far") = far.into();
    report
}

#[test]
fn traps_state_their_reasons() {
    let reason = |esr: u64| found(&arm64(6, esr, 0))["reason"].clone();
    assert_eq!(reason(0xf200_5512), "array index out of bounds");
    assert_eq!(reason(0xf200_c470), "pointer authentication failed, key IA");
    assert_eq!(reason(0xf200_0001), Value::Null);
}

#[test]
fn registers_are_stated_only_if_they_are_null() {
    let mut report = arm64(1, READ, 0x28);
    *thread(&mut report, "/registers/basic/x0") = 0x1234_5678.into();
    let text = found(&report).to_string();
    assert!(!text.contains("305419896") && !text.contains("12345678"), "{text}");
}

/// Proves: bounded-input
#[test]
fn malformed_states_have_no_fault() {
    let mut report = arm64(1, READ, 0);
    for broken in [json!(null), json!([]), json!("x"), json!({"exception": {"esr": "a", "far": []}})] {
        *thread(&mut report, "/registers") = broken;
        assert_eq!(verdict(&report), "none");
    }
    let mut report = arm64(1, READ, 0);
    report["crash"]["threads"] = json!([]);
    assert_eq!(verdict(&report), "none");
    let mut report = arm64(1, READ, 0x28);
    *thread(&mut report, "/backtrace/contents") = json!([]);
    assert_eq!(verdict(&report), "null_pointer");
}

#[test]
fn a_program_of_32_bits_has_the_first_rules_only() {
    let mut report = arm64(1, READ, 0x5000);
    report["binary_images"][0]["cpu_type"] = 33_554_444.into();
    assert_eq!(verdict(&report), "none");
    assert_eq!(verdict(&with_far(&report, 0x28)), "null_pointer");
}
