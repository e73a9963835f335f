//! What a log says of the cause beside the exception: words behind the signal, the region of the address, the kernel's
//! notes, and frames of a recursion that it leaves out.

use crate::{body, log_of, report};
use serde_json::{Value, json};

fn error(report: &Value) -> &Value {
    &report["crash"]["error"]
}

#[test]
fn the_words_behind_a_signal_are_no_part_of_its_name() {
    for (signal, name, note) in [
        ("SIGKILL (Code Signature Invalid)", "SIGKILL", json!("Code Signature Invalid")),
        ("SIGKILL - CODESIGNING", "SIGKILL", json!("CODESIGNING")),
        ("SIGABRT", "SIGABRT", Value::Null),
        ("SIGBUS ()", "SIGBUS", Value::Null),
    ] {
        let mut log = body();
        log["exception"]["signal"] = signal.into();
        let read = report(&log_of(&log));
        assert_eq!(
            (&error(&read)["signal"]["name"], &error(&read)["signal"]["note"]),
            (&json!(name), &note),
            "{signal}"
        );
        assert!(error(&read)["signal"]["signal"].is_u64(), "{signal}");
        let text = format!(
            "Incident Identifier: 1\nCode Type: ARM-64\nReport Version: 104\nException Type: EXC_CRASH ({signal})\n\nThread 0 Crashed:\n\
             0 Kiosk 0x0000000102b4403c 0x102b40000 + 16444\n"
        );
        let read = report(text.as_bytes());
        assert_eq!(
            (&error(&read)["signal"]["name"], &error(&read)["signal"]["note"]),
            (&json!(name), &note),
            "{text}"
        );
    }
}

#[test]
fn a_namespace_is_a_number_and_its_words_are_the_reason() {
    for (namespace, code, indicator, number, reason) in [
        ("CODESIGNING", 4, "Launch Constraint Violation", 3, "CODESIGNING 0x4 Launch Constraint Violation"),
        ("CODESIGNING", 2, "Invalid Page", 3, "CODESIGNING 0x2 Invalid Page"),
        ("LIBXPC", 3, "", 7, "LIBXPC 0x3"),
        ("WATCHDOG", 1, "monitoring timed out", 20, "WATCHDOG 0x1 monitoring timed out"),
        ("GUARD", 6, "", 23, "GUARD 0x6"),
    ] {
        let mut log = body();
        log["termination"] = json!({"namespace": namespace, "code": code, "indicator": indicator});
        let read = report(&log_of(&log));
        assert_eq!(error(&read)["exit_reason"], json!({"code": code, "namespace": number}));
        assert_eq!(error(&read)["reason"], reason);
        let text = format!(
            "Incident Identifier: 1\nCode Type: ARM-64\nReport Version: 104\nException Type: EXC_CRASH (SIGKILL)\n\
             Termination Reason: {namespace} {code} {indicator}\n\nThread 0 Crashed:\n\
             0 Kiosk 0x0000000102b4403c 0x102b40000 + 16444\n"
        );
        assert_eq!(error(&report(text.as_bytes()))["reason"], reason, "{text}");
    }
}

#[test]
fn words_of_the_log_and_of_the_kernel_are_kept() {
    let mut log = body();
    log["exception"]["message"] = "Thread stack size exceeded due to excessive recursion".into();
    log["exception"]["subtype"] = "KERN_PROTECTION_FAILURE at 0x16d2b4fe0".into();
    log["vmRegionInfo"] = "0x16d2b4fe0 is in 0x16ccb4000-0x1704b8000\n      REGION TYPE  START - END\n      Stack 1-2\n--->  STACK GUARD  16ccb4000-1704b8000 ---/rwx\n      Stack 3-4".into();
    log["ktriageinfo"] = "APFS - (arg = 0) protection class does not allow pagein\nVM - (arg = 0x3) vm_fault hit memory error\n".into();
    let read = report(&log_of(&log));
    assert_eq!(
        error(&read)["mach"]["words"],
        json!([
            "Thread stack size exceeded due to excessive recursion",
            "KERN_PROTECTION_FAILURE at 0x16d2b4fe0",
            "0x16d2b4fe0 is in 0x16ccb4000-0x1704b8000",
            "STACK GUARD  16ccb4000-1704b8000 ---/rwx",
        ])
    );
    let notes = json!(["protection class does not allow pagein", "vm_fault hit memory error"]);
    assert_eq!(error(&read)["mach"]["kernel_notes"], notes);
    let text = "Incident Identifier: 1\nCode Type: ARM-64\nReport Version: 104\nException Type: EXC_BAD_ACCESS (SIGBUS)\n\
        Exception Message: Thread stack size exceeded due to excessive recursion\nVM Region Info: 0x16d2b4fe0 is in 0x16ccb4000-0x1704b8000\n\
        \x20     REGION TYPE  START - END\n--->  STACK GUARD  16ccb4000-1704b8000 ---/rwx\n\nKernel Triage:\n\
        APFS - (arg = 0) protection class does not allow pagein\nVM - (arg = 0x3) vm_fault hit memory error\n\nThread 0 Crashed:\n\
        0 Kiosk 0x0000000102b4403c 0x102b40000 + 16444\n";
    let read = report(text.as_bytes());
    assert_eq!(error(&read)["mach"]["words"][0], "Thread stack size exceeded due to excessive recursion");
    assert_eq!(error(&read)["mach"]["words"][2], "STACK GUARD  16ccb4000-1704b8000 ---/rwx");
    assert_eq!(error(&read)["mach"]["kernel_notes"], notes);
}

#[test]
fn frames_of_a_recursion_that_a_log_leaves_out_are_counted() {
    let left_out = |infos: Value| {
        let mut log = body();
        let crashed = log["faultingThread"].as_u64().unwrap() as usize;
        log["threads"][crashed]["recursionInfoArray"] = infos;
        report(&log_of(&log))["crash"]["threads"][crashed]["left_out_frames"].clone()
    };
    assert_eq!(left_out(json!([{"hottestElided": 41, "coldestElided": 43_990, "depth": 43_951}])), 43_951);
    assert_eq!(left_out(json!([{"depth": 10}, {"depth": 20}])), 30);
    for odd in [
        json!(null),
        json!([]),
        json!([{"depth": -1}]),
        json!("x"),
        json!([{"depth": u64::MAX}, {"depth": "1"}]),
    ] {
        let found = left_out(odd.clone());
        assert!(found.is_null() || found == u64::MAX, "{odd}: {found}");
    }
    let text = "Incident Identifier: 1\nCode Type: ARM-64\nReport Version: 104\nException Type: EXC_BAD_ACCESS (SIGSEGV)\n\nThread 0 Crashed:\n\
        0 Kiosk 0x0000000102b4403c 0x102b40000 + 16444\n1 Kiosk 0x0000000102b44014 0x102b40000 + 16404\n\
        -------- ELIDED 43951 LEVELS OF RECURSION THROUGH 0x0000000102b44014\n2 Kiosk 0x0000000102b44014 0x102b40000 + 16404\n";
    let read = report(text.as_bytes());
    assert_eq!(read["crash"]["threads"][0]["left_out_frames"], 43_951);
    assert_eq!(read["crash"]["threads"][0]["backtrace"]["contents"].as_array().unwrap().len(), 3);
}
