//! Backtraces that an app's own monitor takes: of stalls, of much CPU use, and of other events that are no crash.

use crate::{enriched, report, translate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const LOG: &str = "Call Backtrace of 2 threads:\nBacktrace of Thread 771:\n====\n\
    libsystem_kernel.dylib         0x1de6f0b30 mach_msg_trap + 8\n\
    CoreFoundation                 0x18b0012c4 __CFRunLoopRun + 828\n\
    Shop                           0x100002000 Cart.add() + 40\n\
    Shop                           0x100003000 main + 40\n\n\
    Backtrace of Thread 1027:\nlibsystem_kernel.dylib         0x1de6f0b40 kevent + 8\n";
const CRASH: &str = "Incident Identifier: 1\nCode Type: ARM-64\nException Type: EXC_CRASH (SIGABRT)\n\
    Thread 0 Crashed:\n0   Shop   0x0000000100002100 0x100000000 + 8448\n";

fn object_with(log: &str, more: &Value) -> Vec<u8> {
    let mut object = json!({"STACK_TRACE": STANDARD.encode(log), "bundle_id": "org.example.shop"});
    for (key, value) in more.as_object().unwrap() {
        object[key] = value.clone();
    }
    object.to_string().into_bytes()
}

fn kind_of(document: &[u8]) -> (String, Value) {
    let error = report(document)["crash"]["error"].clone();
    (error["type"].as_str().unwrap().to_owned(), error["is_fatal"].clone())
}

#[test]
fn backtraces_without_an_exception_are_no_crash() {
    for (more, kind) in [
        (json!({"MONITOR_TYPE": "CPU"}), "cpu"),
        (json!({"MONITOR_TYPE": "STALL", "type": "x"}), "hang"),
        (json!({"type": "lag"}), "hang"),
        (json!({"DETAIL": {"monitor_type": "MainThreadBlock"}}), "hang"),
        (json!({"eventType": "disk write"}), "disk_write"),
        (json!({"type": "slow_launch"}), "launch"),
        (json!({"type": "FPS"}), "user"),
        (json!({}), "user"),
    ] {
        assert_eq!(kind_of(&object_with(LOG, &more)), (kind.to_owned(), json!(false)), "{more}");
    }
    assert_eq!(kind_of(LOG.as_bytes()), ("user".to_owned(), json!(false)));
    let in_array = json!([LOG]).to_string();
    let elements = crate::readers().split_record(in_array.as_bytes(), &unslide_report::ReadLimits::default());
    assert_eq!(elements.unwrap().len(), 1);
}

#[test]
fn a_monitor_that_calls_it_a_crash_and_a_log_with_an_exception_are_crashes() {
    for document in [
        object_with(LOG, &json!({"MONITOR_TYPE": "CRASH"})),
        object_with(CRASH, &json!({})),
        object_with(CRASH, &json!({"type": "crash"})),
        CRASH.as_bytes().to_vec(),
    ] {
        assert_eq!(kind_of(&document), ("mach".to_owned(), Value::Null));
    }
}

#[test]
fn a_stall_is_grouped_by_the_apps_innermost_function() {
    for (more, kind) in [(json!({"MONITOR_TYPE": "STALL"}), "hang"), (json!({"MONITOR_TYPE": "CPU"}), "cpu")]
    {
        let grouping = enriched(&object_with(LOG, &more)).0.grouping.unwrap();
        assert_eq!(grouping.kind.as_str(), kind);
        assert_eq!(grouping.culprit.as_deref(), Some("Cart.add"), "{more}");
    }
}

#[test]
fn a_crash_diagnostic_without_a_tree_and_a_reason_is_refused() {
    let payload = |diagnostic: Value| {
        json!({"timeStampEnd": "2026-03-02 15:00:00", "crashDiagnostics": [diagnostic]}).to_string()
    };
    let app = json!({"bundleIdentifier": "org.example.shop", "appVersion": "4.2"});
    for tree in
        [json!("QmFja3RyYWNl"), json!({}), json!({"callStackPerThread": true, "callStacks": []}), json!([])]
    {
        let broken = payload(json!({"callStackTree": tree, "diagnosticMetaData": app}));
        let error = translate(broken.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("without frames"), "{error}");
    }
    let mut metadata = app;
    metadata["signal"] = json!(6);
    let reason = payload(json!({"callStackTree": "QmFj", "diagnosticMetaData": metadata}));
    assert_eq!(report(reason.as_bytes())["crash"]["error"]["signal"]["name"], "SIGABRT");
}
