//! The source map of a React Native app, from `unslide upload` to the stored answer.

use serde_json::{Value, json};
use std::time::Duration;
use unslide_tests::installation::{Installation, TENANT};

const SOON: Duration = Duration::from_secs(60);
const REPORT: &str = "5f9e6c1c-6e24-4c36-8f0e-9a3e3c0d6e10";

/// A report of the app: in one line the call of `total`, which throws.
fn report() -> Vec<u8> {
    let frame = |name: &str, column: u32| json!({"methodName": name, "file": "app:///main.jsbundle", "lineNumber": 1, "column": column});
    let user = json!({"name": "TypeError", "language": "react-native", "backtrace": [frame("a", 14), frame("b", 20)]});
    let report = json!({
        "report": {"id": REPORT, "version": "3.3.0", "type": "standard", "timestamp": "2026-11-20T08:00:00Z"},
        "system": {"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.2",
                   "CFBundleVersion": "7", "system_name": "iOS"},
        "crash": {"error": {"type": "user", "reason": "undefined is not an object", "user_reported": user}},
    });
    report.to_string().into_bytes()
}

fn map() -> Value {
    json!({
        "version": 3,
        "sources": ["src/cart.ts"],
        "sourcesContent": ["function total(items) {\n  return items.map(price);\n}\n\nexport function pay(cart) {\n  return total(cart.items);\n}\n"],
        "names": ["items", "total"],
        "mappings": "AAAA,UACSA,UAIAC",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_source_map_heals_the_reports_that_waited_for_it() {
    let installation = Installation::start().await;
    let client = installation.client();
    let input = installation.topic("crash.reports");
    installation.topics.produce(&input, None, &[("tenant", TENANT)], &report()).await;
    let path = format!("/v1/reports/{REPORT}");
    let first = client.wait_for(&path, SOON, |status, _| status == 200).await;
    let ours = &first["symbolication"];
    assert_eq!(
        (&ours["revision"], &ours["images"][0]["name"]),
        (&json!(1), &json!("main.jsbundle")),
        "{first}"
    );
    assert_eq!(ours["javascript"]["frames"][0]["status"], "missing");
    let (_, explained) = client.get(&format!("{path}/explain")).await;
    let reason = explained["javascript"][0]["reason"].as_str().expect("a reason");
    let (_, command) = reason.split_once("upload it: unslide ").expect("a command");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("main.jsbundle.map");
    std::fs::write(&file, map().to_string()).expect("a file");
    let command = command.replace("MAP", file.to_str().expect("UTF-8"));
    let words: Vec<&str> = command.split(' ').collect();
    let told = tokio::task::block_in_place(|| installation.command_succeeds(&words));
    assert!(told.contains("1 uploaded"), "{told}");
    let again = tokio::task::block_in_place(|| installation.command_succeeds(&words));
    assert!(again.contains("1 known before"), "{again}");

    let healed = client.wait_for(&path, SOON, |_, report| report["symbolication"]["revision"] == 2).await;
    let ours = &healed["symbolication"];
    let frame = &ours["javascript"]["frames"][0];
    assert_eq!(
        (&frame["file"], &frame["line"], &frame["function"]),
        (&json!("src/cart.ts"), &json!(2), &json!("total"))
    );
    assert_eq!(frame["context"]["lines"][1], "  return items.map(price);");
    assert_eq!((&ours["status"], &ours["images"][0]["generation"]), (&json!("complete"), &json!(1)));
    assert_eq!(ours["grouping"]["title"], "TypeError: undefined is not an object");
    assert_eq!(ours["grouping"].get("provisional"), None);
    let (_, text) = client.get_text(&path).await;
    assert!(text.contains("JavaScript Stack:\n0   total (src/cart.ts:2:10)"), "{text}");
    let (_, symbols) = client.get("/v1/missing-symbols").await;
    assert_eq!(symbols["items"].as_array().map(Vec::len), Some(0), "{symbols}");
    installation.stop().await;
}
