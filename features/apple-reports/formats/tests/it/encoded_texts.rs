//! Crash logs as text in base64, in a string of a JSON object.

use crate::{enriched, readers, report, stripped, translate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const LOG: &str = "Call Backtrace of 2 threads:\nBacktrace of Thread 771:\n====\n\
    libsystem_kernel.dylib         0x18000c2a0 __workq_kernreturn + 10\n\
    Shop                           0x100002000 Cart.add() + 40 >>> ???\n\n\
    Backtrace of Thread 1027:\nlibsystem_kernel.dylib         0x18000c2b0 kevent + 10\n\n\
    Binary Images:\n0x100000000 - 0x10000ffff Shop arm64 <a1b2c3d40000311182220123456789ab> /a/Shop.app/Shop\n";

fn object_with(log: &str) -> Value {
    json!({"LEVEL": "fatal", "app_version": "4.2", "DETAIL": {"STACK_TRACE": STANDARD.encode(log)},
           "bundle_id": "org.example.shop"})
}

#[test]
fn threads_in_base64_are_a_report_that_comes_back_byte_for_byte() {
    let document = object_with(LOG).to_string();
    let read = report(document.as_bytes());
    let threads = read["crash"]["threads"].as_array().unwrap();
    assert_eq!(
        (threads.len(), &threads[0]["backtrace"]["contents"][1]["instruction_addr"]),
        (2, &json!(0x1_0000_2000_u64))
    );
    let system = &read["system"];
    assert_eq!(
        (&system["CFBundleIdentifier"], &system["CFBundleShortVersionString"]),
        (&json!("org.example.shop"), &json!("4.2"))
    );
    let (result, written) = enriched(document.as_bytes());
    assert_eq!(result.frames.total, 3);
    let answered: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(answered["text"], document.as_str());
    assert_eq!(answered["symbolication"]["answers"].as_array().unwrap().len(), 3);
    assert_eq!(stripped(&written), document.as_bytes());
    // The same stacks in another object are another report.
    let other = document.replace("fatal", "error");
    assert_ne!(report(other.as_bytes())["report"]["id"], read["report"]["id"]);
}

#[test]
fn base64_is_read_with_line_breaks_and_escaped_slashes_and_without_padding() {
    let plain = object_with(LOG).to_string();
    let encoded = STANDARD.encode(LOG);
    assert!(encoded.contains('/'), "the log needs a slash in base64");
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    for written in
        [lines.join("\\r\\n"), encoded.replace('/', "\\/"), encoded.trim_end_matches('=').to_owned()]
    {
        let document = plain.replace(&encoded, &written);
        assert_eq!(report(document.as_bytes())["crash"], report(plain.as_bytes())["crash"], "{written}");
    }
}

#[test]
fn other_objects_are_not_taken_and_a_damaged_text_is_refused() {
    let encoded = STANDARD.encode(LOG);
    let far = format!("{{\"pad\":\"{}\",\"STACK_TRACE\":\"{encoded}\"}}", "x".repeat(8 << 10));
    let many = format!("{{{}\"trace\":\"{encoded}\"}}", "\"trace\":\"aGVsbG8=\",".repeat(4));
    for document in [
        json!({"NOTE": encoded}).to_string(),
        json!({"STACK_TRACE": "no base64!"}).to_string(),
        json!({"STACK_TRACE": STANDARD.encode("hello")}).to_string(),
        json!({"STACK_TRACE": [encoded]}).to_string(),
        format!("{{\"crash\":{{}},\"STACK_TRACE\":\"{encoded}\"}}"),
        far,
        many,
        "{\"STACK_TRACE\":\"".to_owned(),
        "{\"STACK_TRACE\\".to_owned(),
    ] {
        assert!(readers().find(document.as_bytes()).is_none(), "{document}");
    }
    // Beyond the bytes with which the text is recognised.
    let long = STANDARD.encode(LOG.repeat(60));
    let damaged = format!("{{\"STACK_TRACE\":\"{long}!{long}\"}}");
    let whole = format!("{{\"STACK_TRACE\":\"{long}\"}}");
    let cut = whole.strip_suffix("\"}").unwrap();
    for (document, named) in [(damaged.as_str(), "base64"), (cut, "")] {
        let error = translate(document.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    assert!(translate(whole.as_bytes()).is_ok());
}
