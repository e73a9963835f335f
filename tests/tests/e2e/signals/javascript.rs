//! The source map of a React Native app, from `unslide upload` to the line of the source on the console.

use super::World;
use serde_json::{Value, json};

const APP: &str = "com.example.react";

/// A report of the app: in one line the call of `total`, which throws.
fn report() -> String {
    let frame = |name: &str, column: u32| json!({"methodName": name, "file": "app:///main.jsbundle", "lineNumber": 1, "column": column});
    let user = json!({"name": "TypeError", "language": "react-native", "backtrace": [frame("a", 14), frame("b", 20)]});
    let report = json!({
        "report": {"id": "5f9e6c1c-6e24-4c36-8f0e-9a3e3c0d6e10", "version": "3.3.0", "type": "standard",
                   "timestamp": "2026-11-20T08:00:00Z"},
        "system": {"CFBundleIdentifier": APP, "CFBundleShortVersionString": "1.2",
                   "CFBundleVersion": "7", "system_name": "iOS"},
        "crash": {"error": {"type": "user", "reason": "undefined is not an object", "user_reported": user}},
    });
    report.to_string()
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

pub async fn an_error_shows_the_line_of_its_source(world: &World) {
    let World { installation, client, console, .. } = world;
    world.send("crash.reports", &report()).await;
    let (id, first) = world.report(APP, 1).await;
    let (path, page) = (format!("/v1/reports/{id}"), format!("/console/reports/{id}"));
    let ours = &first["symbolication"];
    assert_eq!(ours["images"][0]["name"], "main.jsbundle", "{first}");
    assert_eq!(ours["javascript"]["frames"][0]["status"], "missing");
    console.page_with(&page, &["JavaScript", "unslide upload --source-map MAP"]).await;
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

    let (_, healed) = world.report(APP, 2).await;
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
    let (_, symbols) = client.get(&format!("/v1/missing-symbols?app={APP}")).await;
    assert_eq!(symbols["items"].as_array().map(Vec::len), Some(0), "{symbols}");
    let shown = [
        "JavaScript",
        "<span class=\"fn\" title=\"total\">",
        "title=\"src/cart.ts\"><span class=\"start\">cart.ts</span><span class=\"end\">:2</span>",
        "return items.map(price);",
    ];
    console.page_with(&page, &shown).await;
    let group = world.group(APP).await;
    assert_eq!(group["title"], "TypeError: undefined is not an object");
    let group = format!("/console/groups/{}", group["id"].as_str().expect("an id"));
    console.page_with(&group, &["TypeError: undefined is not an object", "cart.ts"]).await;

    world.delete(&format!("/reports/{id}")).await;
}
