//! A log of allocations from `unslide capture send` to its page, before and after its dSYM has come.

use serde_json::json;
use std::time::Duration;
use unslide_tests::app::App;
use unslide_tests::installation::Installation;

const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_is_analysed_again_when_its_dsym_comes() {
    let app = App::fixture("app");
    let installation = Installation::start().await;
    let client = installation.client();
    let folder = tempfile::tempdir().expect("a folder");
    let log = app.allocations();
    let paths = ["events", "stacks", "images"].map(|name| folder.path().join(name));
    for (path, bytes) in paths.iter().zip(&log) {
        std::fs::write(path, bytes).expect("a file");
    }
    let [events, stacks, images] = paths.each_ref().map(|path| path.to_str().expect("UTF-8"));
    let command = [
        "capture",
        "send",
        "--wait",
        "--app",
        "com.example.shop",
        "--layout",
        "index",
        "--stacks",
        stacks,
        "--images",
        images,
        events,
    ];
    let told = tokio::task::block_in_place(|| installation.command_succeeds(&command));
    let path = format!("/v1/captures/{}", told.split_whitespace().next().expect("an id"));
    let first = client.wait_for(&path, SOON, |_, capture| capture["state"] == "ready").await;
    assert_eq!((&first["kind"], &first["summary"]["lacking"]), (&json!("malloc_log"), &json!(1)), "{first}");
    assert_eq!(first["analysis"]["memory"]["memory"]["heap_bytes"], 1_000);
    let again = tokio::task::block_in_place(|| installation.command_succeeds(&command));
    assert!(again.contains("was sent before"), "{again}");

    client.upload(app.dsym.clone()).await;
    let healed = |_, capture: &serde_json::Value| capture["summary"]["lacking"] == 0;
    let second = client.wait_for(&path, SOON, healed).await;
    let function = &second["analysis"]["memory"]["stacks"][0]["functions"][0];
    let name = function.as_str().expect("a function");
    assert!(name.starts_with("level_three"), "{name}");
    let (_, list) = client.get("/v1/captures?app=com.example.shop").await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    installation.stop().await;
}
