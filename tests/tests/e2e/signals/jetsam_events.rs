//! A Jetsam event log from Kafka to the processes on its page, and to the memory limits of the app.

use super::World;
use serde_json::json;

const APP: &str = "com.example.jetsam";

/// A log as a device writes it, with the app's names added by the sender: the app was killed at its limit of 2 GiB.
fn log() -> String {
    let header = json!({"bug_type": "298", "timestamp": "2026-11-20 08:00:00.00 +0000",
        "os_version": "iPhone OS 18.3.1 (22D72)"});
    let processes = json!([
        {"name": "Maps", "rpages": 64_000, "states": ["suspended"]},
        {"name": "Shop", "rpages": 131_072, "lifetimeMax": 131_072, "states": ["frontmost"], "reason": "per-process-limit"}]);
    let event = json!({"bug_type": "298", "incident": "66666666-7777-8888-9999-AAAAAAAAAAAA",
        "product": "iPhone16,1", "build": "iPhone OS 18.3.1 (22D72)", "date": "2026-11-20 08:00:00.00 +0000",
        "largestProcess": "Shop", "processes": processes,
        "memoryStatus": {"pageSize": 16_384, "compressorSize": 64, "memoryPages": {"free": 128, "wired": 192}},
        "system": {"CFBundleIdentifier": APP, "CFBundleExecutable": "Shop"}});
    format!("{header}\n{event}")
}

pub async fn an_event_shows_who_was_killed(world: &World) {
    world.send("crash.reports", &log()).await;
    let (id, report) = world.report(APP, 1).await;
    let ended = &report["symbolication"]["ended"];
    assert_eq!(
        (&ended["kind"], &ended["rule"], &ended["foreground"]),
        (&json!("out_of_memory"), &json!("jetsam"), &json!(true)),
        "{report}"
    );
    let killed = "per-process-limit: the footprint is 2048 MB";
    let shown =
        [killed, "Ended: out of memory in the foreground", "Memory of the device", "frontmost", "2.0 GiB"];
    let page = world.console.page_with(&format!("/console/reports/{id}"), &shown).await;
    assert!(
        page.contains("Shop</span> <span class=\"tag\">largest") && page.contains("Maps</span>"),
        "{page}"
    );
    let group = world.group(APP).await;
    assert_eq!(
        (&group["kind"], &group["title"]),
        (&json!("out_of_memory"), &json!("Out of memory in the foreground"))
    );

    let (_, found) = world.client.get(&format!("/v1/apps/{APP}/memory-limits")).await;
    let limit = &found["limits"][0];
    assert_eq!(
        (&limit["model"], &limit["os_version"], &limit["median"]),
        (&json!("iPhone16,1"), &json!("18.3.1"), &json!(2_u64 << 30)),
        "{found}"
    );
    let health = format!("/console/health?app={APP}");
    world.console.page_with(&health, &["Memory limits", "iPhone16,1", "2.0 GiB"]).await;

    world.delete(&format!("/reports/{id}")).await;
    let (status, found) = world.client.get(&format!("/v1/apps/{APP}/memory-limits")).await;
    assert_eq!(status, 404, "{found}");
}
