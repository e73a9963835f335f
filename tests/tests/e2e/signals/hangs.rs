//! Hangs: a report of KSCrash with what it sampled, and a diagnostic of MetricKit.

use super::{FUNCTIONS, LEAF_BOX, UNNAMED_BOX, World, names};
use serde_json::{Value, json};
use unslide_testkit::reports::sampled_hang;
use unslide_tests::app::App;

/// A hang of 100 ms, with ten samples of what the main thread did: seven of them lie in `leaf_crash`.
fn sampled(app: &App) -> String {
    let mut report: Value = serde_json::from_slice(&app.build_report(1).bytes()).expect("a report");
    let [leaf, caller] = app.stack();
    // The device has decremented the return address.
    let frames =
        [leaf, caller - 1].map(|distance| json!({"instruction_addr": app.load_address() + distance}));
    let samples: Vec<Vec<usize>> =
        (0..10).map(|sample| if sample < 7 { vec![0, 1] } else { vec![1] }).collect();
    report["crash"]["error"] = sampled_hang(100, &json!(frames), &samples);
    report.to_string()
}

pub async fn a_hang_that_was_sampled_has_a_flame_graph(world: &World) {
    let app = world.app.as_app("com.example.hangs", 1);
    world.send("crash.reports", &sampled(&app)).await;
    let (id, first) = world.report(app.bundle, 1).await;
    assert_eq!(first["symbolication"]["missing"], json!([app.debug_id.to_string()]), "{first}");
    let flame = format!("/console/reports/{id}/flame");
    let before = world.console.page_with(&flame, &["<svg", UNNAMED_BOX]).await;
    assert!(!before.contains("leaf_crash"), "{before}");

    world.client.upload_symbols(app.dsym.clone()).await;
    world.report(app.bundle, 2).await;
    let (_, profile) = world.client.get(&format!("/v1/reports/{id}/profile")).await;
    assert_eq!((names(&profile["tree"]), &profile["duration_ms"]), (FUNCTIONS.to_vec(), &json!(100)));
    let leaf = format!("{LEAF_BOX} \u{2014} 7 samples, 70.0 %</title>");
    world.console.page_with(&flame, &["<svg", &leaf, "Heaviest path", "In the order of time"]).await;
    let group = world.group(app.bundle).await;
    assert_eq!((&group["kind"], &group["title"]), (&json!("hang"), &json!("Hang in leaf_crash")));
    let page = format!("/console/groups/{}", group["id"].as_str().expect("an id"));
    world.console.page_with(&page, &["Hang in leaf_crash", "How long it took", "100 ms"]).await;
    world.console.page_with(&format!("{page}/flame"), &[&leaf, "10 samples from 1 report"]).await;

    world.delete(&format!("/reports/{id}")).await;
    assert_eq!(world.console.get(&flame).await.0, 404);
}

/// What MetricKit says of too much CPU use: nine samples of one stack.
fn diagnostic(app: &App) -> String {
    let frame = |(uuid, name): (&str, &str), (base, offset): (u64, u64), below: Vec<Value>| {
        json!({"binaryUUID": uuid, "binaryName": name, "address": base + offset,
            "offsetIntoBinaryTextSegment": offset, "sampleCount": 9, "subFrames": below})
    };
    let ([leaf, caller], id) = (app.stack(), app.debug_id.to_string());
    let shop = (id.as_str(), "Shop");
    let inner = frame(shop, (app.load_address(), leaf), Vec::new());
    let outer = frame(shop, (app.load_address(), caller), vec![inner]);
    let system = ("00000001-0000-3000-8000-000000000001", "libsystem_pthread.dylib");
    let thread = frame(system, (0x1_9000_0000, 0x1000), vec![outer]);
    let tree = json!({"callStackPerThread": false, "callStacks": [{"callStackRootFrames": [thread]}]});
    let about = json!({"bundleIdentifier": app.bundle, "appVersion": "1.2.3", "appBuildVersion": "45",
        "deviceType": "iPhone16,1", "osVersion": "iPhone OS 18.3.1 (22D72)", "platformArchitecture": "arm64e",
        "regionFormat": "US", "totalCPUTime": "20 sec", "totalSampledTime": "30 sec"});
    let cpu = json!({"version": "1.0.0", "callStackTree": tree, "diagnosticMetaData": about});
    json!({"timeStampEnd": "2026-11-20 08:00:00", "cpuExceptionDiagnostics": [cpu]}).to_string()
}

pub async fn a_diagnostic_of_metric_kit_has_a_flame_graph(world: &World) {
    let app = world.app.as_app("com.example.cpu", 2);
    world.send("crash.reports", &diagnostic(&app)).await;
    let (id, first) = world.report(app.bundle, 1).await;
    let missing = first["symbolication"]["missing"].to_string();
    assert!(missing.contains(&app.debug_id.to_string()), "{first}");
    let flame = format!("/console/reports/{id}/flame");
    world.console.page_with(&flame, &["<svg", UNNAMED_BOX]).await;

    world.client.upload_symbols(app.dsym.clone()).await;
    world.report(app.bundle, 2).await;
    let (_, profile) = world.client.get(&format!("/v1/reports/{id}/profile")).await;
    // The outermost is the system's function, which has no name.
    assert_eq!(names(&profile["tree"])[1..], FUNCTIONS, "{profile}");
    let leaf = format!("{LEAF_BOX} \u{2014} 9 samples, 100.0 %</title>");
    world.console.page_with(&flame, &["<svg", &leaf, "Heaviest path"]).await;
    let group = world.group(app.bundle).await;
    assert_eq!(group["kind"], "cpu", "{group}");
    let page = format!("/console/groups/{}/flame", group["id"].as_str().expect("an id"));
    world.console.page_with(&page, &[&leaf, "9 samples from 1 report"]).await;
}
