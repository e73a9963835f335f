//! The console in a browser, over the data that the services make of uploads and reports.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_embedded::free_port;
use unslide_model::{Clock, SystemClock};
use unslide_testkit::reports::{ARM64, Frame, Image, Json, Report, Style, Thread, sampled_hang};
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// The run of the app that reports, metrics and a capture are of.
const SESSION: &str = "5e551011-0000-4000-8000-000000000001";
/// The user of that run.
const CUSTOMER: &str = "customer 4711";

/// Where `scripts/setup test` has put what the check needs.
fn tools() -> PathBuf {
    let cache = std::env::var_os("UNSLIDE_CACHE").map(PathBuf::from);
    let base = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache");
    cache.unwrap_or_else(|| base().unwrap_or_else(home).join("unslide")).join("tools")
}

/// Starts an installation with reports, whose alerts reach a receiver at a port that the check has.
async fn with_reports(receiver_port: &str) -> Installation {
    let (app, next) = (App::from_fixture("app"), App::from_fixture("app-next"));
    let mut installation = Installation::start_with(&[
        ("UNSLIDE_API__PUBLIC_URL", "https://crashes.example.com"),
        ("UNSLIDE_API__ALERTS__NETWORKS", "127.0.0.0/8"),
        ("UNSLIDE_API__ALERTS__PORTS", receiver_port),
    ])
    .await;
    let scopes = "symbols:write,symbols:read,reports:write,reports:read,groups:write,tenant:admin,operator";
    let output = installation.command_succeeds(&["key", "create", "--tenant", TENANT, "--scope", scopes]);
    installation.key =
        output.split_whitespace().find(|w| w.starts_with("unslide_")).expect("a key").to_owned();
    let client = installation.client();
    client.upload_symbols(app.dsym.clone()).await;
    let input = installation.topic_name("crash.reports");
    for number in 1..4 {
        let report = with_context(app.build_report(number)).set("report.run_id", SESSION).bytes();
        send(&client, "/v1/reports", &report).await;
    }
    for report in [next.build_report(4).bytes(), hang(&app, 5), large(&app, 6), hostile()] {
        send(&client, "/v1/reports", &report).await;
    }
    installation.topics.produce_record(&input, None, &[("tenant", TENANT)], b"{\"report\":").await;
    let path = format!("/v1/captures?app=com.example.shop&version=1.2&kind=profile&session_id={SESSION}");
    let sent = send(&client, &path, b"main;checkout;total 30\nmain;checkout;draw 12\n").await;
    let path = format!("/v1/captures/{}", sent["id"].as_str().expect("an id"));
    client.wait_for(&path, EVENTUAL_TIMEOUT, |_, capture| capture["state"] == "ready").await;
    // One to compare it with.
    let path = "/v1/captures?app=com.example.shop&version=1.3&kind=profile";
    let sent = send(&client, path, b"main;checkout;total 9\nmain;checkout;draw 40\n").await;
    let path = format!("/v1/captures/{}", sent["id"].as_str().expect("an id"));
    client.wait_for(&path, EVENTUAL_TIMEOUT, |_, capture| capture["state"] == "ready").await;
    let stored = |status, page: &serde_json::Value| {
        status == 200 && page["items"].as_array().is_some_and(|items| items.len() == 7)
    };
    client.wait_for("/v1/reports", EVENTUAL_TIMEOUT, stored).await;
    let noted = |status, page: &serde_json::Value| {
        status == 200 && page["items"].as_array().is_some_and(|items| items.len() == 1)
    };
    client.wait_for("/v1/dead-letters", EVENTUAL_TIMEOUT, noted).await;
    send_session(&client).await;
    installation
}

/// Sends bytes as a patient client does, until the service has them; its answer.
async fn send(client: &Client, path: &str, body: &[u8]) -> Value {
    client.post_until(path, body, EVENTUAL_TIMEOUT, |status, _| status == 202).await
}

/// Sends the session of the first reports and of the capture, with a metric payload of it.
async fn send_session(client: &Client) {
    let now = SystemClock.now();
    let time = |time: OffsetDateTime| time.format(&Rfc3339).expect("a time");
    let session = json!({"id": SESSION, "installation": "one", "user": CUSTOMER, "app": "com.example.shop", "version": "1.2",
        "started_at": time(now - time::Duration::MINUTE), "duration": 60, "end_reason": "crashed"});
    send(client, "/v1/sessions", session.to_string().as_bytes()).await;
    let metrics = json!({"id": "m1", "app": "com.example.shop", "version": "1.2", "device": "iPhone16,1", "os": "iOS 18.3", "measured_at": time(now),
        "session": SESSION, "measurements": [{"name": "launch_time", "unit": "ms", "value": 800}]});
    send(client, "/v1/metrics", metrics.to_string().as_bytes()).await;
    // Its start and its end, three reports, the metrics and the capture.
    let told =
        |status, page: &Value| status == 200 && page["items"].as_array().is_some_and(|all| all.len() == 7);
    client.wait_for(&format!("/v1/sessions/{SESSION}?app=com.example.shop"), EVENTUAL_TIMEOUT, told).await;
}

/// Adds the app's keys and log, and the state of the app and the device.
fn with_context(report: Report) -> Report {
    report
        .set("user.plan", "pro")
        .set("user.breadcrumbs", Json::array(["opened the cart", "pressed Pay"].map(Json::from)))
        .set("debug.console_log", Json::array(["cart: 3 items", "pay: started"].map(Json::from)))
        .set("system.machine", "iPhone16,1")
        .set("system.freeStorage", 52_428_800_u64)
        .set("system.battery_level", 7_u64)
        .set("system.application_stats.application_in_foreground", false)
}

/// A hang of 100 ms, with ten samples of what the main thread did.
fn hang(app: &App, number: u32) -> Vec<u8> {
    let mut report: Value = serde_json::from_slice(&app.build_report(number).bytes()).expect("a report");
    let frames = report["crash"]["threads"][0]["backtrace"]["contents"].clone();
    let all: Vec<usize> = (0..frames.as_array().expect("frames").len()).collect();
    report["crash"]["error"] = sampled_hang(100, &frames, &vec![all; 10]);
    report.to_string().into_bytes()
}

/// A report of another app with 1,000 threads of 200 frames.
fn large(app: &App, number: u32) -> Vec<u8> {
    let waiting = |index| Thread::new(index).frames(std::iter::repeat_n(Frame::at(0x1000), 200));
    let report = app.build_report(number).set("system.CFBundleIdentifier", "com.example.large");
    (1..1_000).map(waiting).fold(report, Report::thread).style(Style::Compact).bytes()
}

/// A report in which everything is called by markup that would run a script.
fn hostile() -> Vec<u8> {
    let markup = "\"><img src=x onerror=\"alert(1)\"><script>alert(2)</script>\u{202e}";
    let text = format!("{markup}{}", "A".repeat(440));
    let (app, system) = (0x2_0000_0000, 0x4_0000_0000);
    let image = |path: String, id: &str, at: u64| Image::new(&path, id, at).size(0x1_0000).cpu(ARM64);
    let crashed = Frame::at(app + 0x1000).object(&text, app).symbol(&text, app + 0xf00);
    let report = Report::standard()
        .id("00000000-0000-4000-8000-000000000007")
        .image(image(format!("/private/var/X/{text}"), "7D2F4A11-93C4-3F6E-8E0B-0C5A1E7D9F22", app))
        .image(image(format!("/System/{text}"), "6D2F4A11-93C4-3F6E-8E0B-0C5A1E7D9F22", system))
        .thread(Thread::new(0).crashed().name(&text).frames([crashed, Frame::at(system + 0x1000)]))
        .set("crash.error.type", "nsexception")
        .set("user.value", text.as_str())
        .set("debug.console_log", Json::array([Json::from(text.as_str())]))
        .set("crash.error.reason", text.as_str())
        .set("crash.error.nsexception.name", text.as_str());
    let version = ["CFBundleIdentifier", "CFBundleName", "CFBundleShortVersionString", "CFBundleVersion"];
    let names = version.into_iter().chain(["machine", "system_version", "process_name"]);
    names.fold(report, |report, key| report.set(&format!("system.{key}"), text.as_str())).bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_finds_nothing_wrong_with_the_console() {
    let port = free_port().expect("a port").to_string();
    let installation = with_reports(&port).await;
    // `make screens` looks at the same pages.
    let screens = std::env::var_os("UNSLIDE_SCREENS");
    if screens.is_none() {
        // First, because the check changes the groups.
        let data = ["com.example.shop", "1.2.3", CUSTOMER].map(OsString::from);
        assert!(
            runs_well("flows.mjs", &installation, &port, data).await,
            "a question takes too long to answer"
        );
    }
    assert!(
        runs_well("check.mjs", &installation, &port, screens).await,
        "the console is not as it should be"
    );
}

/// Runs a script in the browser, which prints what is wrong and what was measured.
async fn runs_well(
    script: &str,
    installation: &Installation,
    receiver_port: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> bool {
    // Modules are looked for beside the script.
    let (fonts, tools) = (tools().join("fonts/fonts.conf"), tools().join("console"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("console").join(script);
    std::fs::copy(source, tools.join(script)).expect("scripts/setup test has made the folder");
    let mut command = Command::new("node");
    command.arg(script).arg(&installation.url).arg(&installation.key).current_dir(&tools).args(arguments);
    command.env("UNSLIDE_RECEIVER_PORT", receiver_port).env("FONTCONFIG_FILE", fonts);
    let status = tokio::task::spawn_blocking(move || command.status()).await.expect("the script");
    status.expect("node").success()
}
