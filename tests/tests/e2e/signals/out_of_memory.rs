//! Ends out of memory: session events from their topic to the health of a version, and the report that an app sends at
//! its next start.

use super::{EVENTUAL_TIMEOUT, World, about_memory, allocating_functions};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use unslide_model::{Clock, SystemClock};
use unslide_tests::app::FUNCTIONS;

/// The session that the report is of.
const RUN: &str = "5e551011-0000-4000-8000-000000000007";

/// Five sessions: one ended without trouble, one was ended by its user, and three ended for lack of memory. Of these
/// one has evidence, one nothing else explains, and one was in the background.
fn sessions(app: &str) -> [Value; 5] {
    let started = (SystemClock.now() - time::Duration::MINUTE).format(&Rfc3339).expect("a time");
    let session = |id: &str, foreground: bool, (field, end): (&str, Value)| {
        json!({"id": id, "installation": id, "app": app, "version": "1.2.3", "started_at": started,
            "duration": 30, "foreground": foreground, field: end})
    };
    let found = |evidence: Value| ("termination", evidence);
    [
        session("exited", true, ("end_reason", json!("exited"))),
        session("force-quit", true, found(json!({"force_quit": true, "memory_pressure": "critical"}))),
        session(RUN, true, found(json!({"memory_pressure": "critical"}))),
        session("unexplained", true, found(json!({"memory_pressure": "warning"}))),
        session("background", false, found(json!({"footprint": 90, "footprint_limit": 100}))),
    ]
}

pub async fn sessions_and_a_report_say_why_the_app_ended(world: &World) {
    let app = world.app.as_app("com.example.memory", 7);
    for session in sessions(app.bundle) {
        world.send("crash.sessions", &session.to_string()).await;
    }
    let mut ended = about_memory(&app, 7, RUN);
    ended["crash_type"] = json!("foom_crash");
    ended["system"]["app_memory"] = json!({"memory_footprint": 92, "memory_limit": 100});
    world.send("crash.reports", &ended.to_string()).await;

    let (id, first) = world.report(app.bundle, 1).await;
    // With the report of one of them: it is no crash.
    the_sessions_are_counted(world, app.bundle).await;
    assert_eq!(first["symbolication"]["missing"][0], app.debug_id.to_string(), "{first}");
    let page = format!("/console/reports/{id}");
    let why = "Ended: out of memory in the foreground (rule: crash type; confidence: medium; footprint: 92 % of the limit)";
    world.console.page_with(&page, &[why, "Last sampled stack", "symbols missing"]).await;

    world.client.upload_symbols(app.dsym.clone()).await;
    let (_, healed) = world.report(app.bundle, 2).await;
    assert_eq!(healed["symbolication"]["ended"]["kind"], "out_of_memory", "{healed}");
    assert_eq!(allocating_functions(&healed), FUNCTIONS, "{healed}");
    let shown =
        [why, "not why it ended", "734003200 bytes in 1400", "<span class=\"fn\" title=\"leaf_crash\">"];
    world.console.page_with(&page, &shown).await;
    let group = world.group(app.bundle).await;
    assert_eq!(
        (&group["kind"], &group["title"]),
        (&json!("out_of_memory"), &json!("Out of memory in the foreground"))
    );
    let timeline = format!("/console/sessions/{RUN}?app={}", app.bundle);
    let link = format!("href=\"/console/reports/{id}\">A report: out of memory");
    world.console.page_with(&timeline, &["The session ended: out of memory", &link]).await;
}

async fn the_sessions_are_counted(world: &World, app: &str) {
    let path = format!("/v1/apps/{app}/health");
    let all = |_, health: &Value| health["period"]["sessions"] == 5;
    let health = world.client.wait_for(&path, EVENTUAL_TIMEOUT, all).await;
    let period = &health["period"];
    let counts = ["out_of_memory_sessions", "unexplained_sessions", "background_out_of_memory_sessions"];
    assert_eq!(counts.map(|count| period[count].as_i64()), [Some(2), Some(1), Some(1)], "{health}");
    assert_eq!(period["crash_free_sessions"], 1.0, "no crash ended them");
    world
        .console
        .page_with(&format!("/console/health?app={app}"), &["Out of memory", "40.00 %", "5 sessions"])
        .await;
}
