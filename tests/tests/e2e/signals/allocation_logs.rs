//! A log of allocations from `unslide capture send` to its page, before and after its dSYM has come.

use super::{EVENTUAL_TIMEOUT, World};
use serde_json::json;

pub async fn a_log_shows_who_allocated(world: &World) {
    let app = world.app.as_app("com.example.allocations", 3);
    let folder = tempfile::tempdir().expect("a folder");
    let log = app.build_allocation_log();
    let paths = ["events", "stacks", "images"].map(|name| folder.path().join(name));
    for (path, bytes) in paths.iter().zip(&log) {
        std::fs::write(path, bytes).expect("a file");
    }
    let [events, stacks, images] = paths.each_ref().map(|path| path.to_str().expect("UTF-8"));
    let arguments = ["--layout", "index", "--stacks", stacks, "--images", images, events];
    let id = world.capture(app.bundle, &arguments);
    let first = world.analysis(&id, 1).await;
    assert_eq!(first["memory"]["memory"]["heap_bytes"], 1_000, "{first}");
    let page = format!("/console/captures/{id}");
    let before = world.console.page_with(&page, &["Log of allocations", "<svg", "Missing symbols"]).await;
    assert!(!before.contains("level_three"), "{before}");
    assert_eq!(world.capture(app.bundle, &arguments), id, "the same files are one capture");

    world.client.upload_symbols(app.dsym.clone()).await;
    let second = world.analysis(&id, 0).await;
    let function = second["memory"]["stacks"][0]["functions"][0].as_str().expect("a function");
    assert!(function.starts_with("level_three"), "{function}");
    let shown = ["<svg", "<title>level_three (Shop, app)", "Top allocators", "1000 B"];
    world.console.page_with(&page, &shown).await;
    let path = format!("/v1/captures?app={}", app.bundle);
    let one = |_, list: &serde_json::Value| list["items"].as_array().is_some_and(|all| all.len() == 1);
    let list = world.client.wait_for(&path, EVENTUAL_TIMEOUT, one).await;
    assert_eq!(list["items"][0]["kind"], json!("malloc_log"), "{list}");

    world.delete(&format!("/captures/{id}")).await;
}
