//! Metric payloads from their topic to the health of versions: launches, and the phases of requests by host.

use super::{EVENTUAL_TIMEOUT, World};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use unslide_model::{Clock, SystemClock};

const APP: &str = "com.example.metrics";
/// The session that all payloads name.
const SESSION: &str = "measured";
/// Payloads of each version.
const PAYLOADS: u32 = 10;

/// What one device measured: the newer version launches in twice the time, and each of its requests fails.
fn payload(version: &str, number: u32) -> String {
    let is_newer = version == "1.1";
    let launch = if is_newer { 1_600 } else { 800 };
    let at = SystemClock.now().format(&Rfc3339).expect("a time");
    let request = json!({"host": "api.example.com", "path": format!("/orders/{number}?key=1"), "method": "GET", "protocol": "h2", "failed": is_newer, "dns": 10, "connect": 20, "tls": 30,
        "first_byte": 100, "total": 150});
    json!({"id": format!("{version}-{number}"), "app": APP, "version": version, "session": SESSION,
        "device": "iPhone16,1", "os": "iOS 18.3", "measured_at": at,
        "measurements": [{"name": "launch_time", "unit": "ms", "value": launch}], "requests": [request]})
    .to_string()
}

pub async fn requests_are_shown_by_host_and_phase(world: &World) {
    for version in ["1.0", "1.1"] {
        for number in 0..PAYLOADS {
            world.send("crash.metrics", &payload(version, number)).await;
        }
    }
    let all = |_, network: &Value| network["hosts"][0]["requests"] == f64::from(2 * PAYLOADS);
    let network = world.client.wait_for(&format!("/v1/apps/{APP}/network"), EVENTUAL_TIMEOUT, all).await;
    let host = &network["hosts"][0];
    assert_eq!((&host["host"], &host["failed"]), (&json!("api.example.com"), &json!(0.5)), "{network}");
    for (name, millis) in [
        ("request_dns", 10.0),
        ("request_connect", 20.0),
        ("request_tls", 30.0),
        ("request_first_byte", 100.0),
        ("request_total", 150.0),
    ] {
        let phases = host["phases"].as_array().expect("phases");
        let phase = phases.iter().find(|phase| phase["phase"] == name).expect(name);
        let median = phase["p50"].as_f64().expect("a median");
        assert!((median / millis - 1.0).abs() < 0.02, "{name}: {network}");
    }

    let endpoint = &network["endpoints"][0];
    assert_eq!(endpoint["value"], json!("GET api.example.com/orders/#"), "{network}");
    assert_eq!(network["protocols"][0]["requests"], json!(f64::from(2 * PAYLOADS)), "{network}");

    let (_, found) = world.client.get(&format!("/v1/apps/{APP}/health/versions")).await;
    let newest = &found["versions"][0];
    assert_eq!((&newest["version"], &newest["version_before"]), (&json!("1.1"), &json!("1.0")), "{found}");
    let page = format!("/console/health?app={APP}");
    let heads = [
        "Launch",
        "Failed requests",
        "api.example.com",
        "DNS",
        "Connect",
        "TLS",
        "First byte",
        "GET api.example.com/orders/#",
    ];
    let shown = [&heads[..], &["compared with 1.0", "100.00 %", "20 requests", "50.00 %"]].concat();
    world.console.page_with(&page, &shown).await;
    let breakdown = format!("/console/health/breakdown?app={APP}&version=1.1&metric=launch_time");
    world
        .console
        .page_with(&breakdown, &["By device", "iPhone16,1", "By system", "iOS 18.3", "10 values"])
        .await;
    let timeline = format!("/console/sessions/{SESSION}?app={APP}");
    world.console.page_with(&timeline, &["Metrics 1.0-0", "Metrics 1.1-9"]).await;
}
