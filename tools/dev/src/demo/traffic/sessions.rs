//! The sessions of the week: those of its reports, and many more.

use super::builds::{BUILDS, REPAIR_VERSION};
use super::{BoxError, Client, DAY_MILLIS, Run, RunEnd, days};
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Sessions for each report of a build.
const SESSIONS: u32 = 60;
/// The same of the repair, which has few reports: with those of the day before, the bug that it mends has a verdict.
const REPAIR_SESSIONS: u32 = 12 * SESSIONS;

/// Sends the sessions of the week: that of each report, and many without one.
pub async fn send(client: &Client, runs: &[Run], now: i64, random: &mut SmallRng) -> Result<usize, BoxError> {
    let mut sessions = runs.iter().map(|run| session_of(run, random)).collect::<Result<Vec<_>, _>>()?;
    for build in &BUILDS {
        let each = if build.version == REPAIR_VERSION { REPAIR_SESSIONS } else { SESSIONS };
        for (begin, count) in days(build, now) {
            for number in count..count * each {
                let at = random.random_range(begin..(begin + DAY_MILLIS).min(now));
                let started = OffsetDateTime::from_unix_timestamp(at / 1_000)?.format(&Rfc3339)?;
                let (installation, user) = any_installation(build.app, random);
                let mut session = json!({
                    "id": format!("{}-{begin}-{number}", build.uuid),
                    "installation": installation,
                    "user": user,
                    "app": build.app,
                    "version": build.version,
                    "started_at": started,
                    "duration": random.random_range(5..600_u32),
                    "foreground": number % 210 != 0,
                });
                // The broken release also leaks.
                if number % if build.version == "2.5.0" { 70 } else { 700 } == 0 {
                    let pressure = if number % 3 == 0 { "critical" } else { "warning" };
                    session["termination"] = json!({"memory_pressure": pressure});
                } else {
                    session["end_reason"] = json!("exited");
                }
                sessions.push(session);
            }
        }
    }
    for page in sessions.chunks(1_000) {
        let _: Value = client.post("/v1/sessions", &json!(page)).await?;
        // Within the tenant's rate.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(sessions.len())
}

/// Returns an installation of an app, and its user: every second user has two.
fn any_installation(app: &str, random: &mut SmallRng) -> (String, String) {
    let number = random.random_range(0..3_000_u32);
    (format!("{app}-{number}"), format!("{app}-user-{}", number % 2_000))
}

/// Creates the session of a run. It ends with the report if the report is about its end, and otherwise a
/// little later.
fn session_of(run: &Run, random: &mut SmallRng) -> Result<Value, BoxError> {
    let before = random.random_range(20..600_i64);
    let started = OffsetDateTime::from_unix_timestamp(run.at_millis / 1_000 - before)?.format(&Rfc3339)?;
    let after = if run.end == RunEnd::Exit { random.random_range(5..300_i64) } else { 0 };
    let (installation, user) = any_installation(run.build.app, random);
    let mut session = json!({
        "id": run.id,
        "installation": installation,
        "user": user,
        "app": run.build.app,
        "version": run.build.version,
        "started_at": started,
        "duration": before + after,
        "foreground": run.end != RunEnd::OutOfMemory { foreground: false },
    });
    match run.end {
        RunEnd::OutOfMemory { .. } => session["termination"] = json!({"memory_pressure": "critical"}),
        RunEnd::Crash => session["end_reason"] = json!("crashed"),
        RunEnd::Hang => session["end_reason"] = json!("hang"),
        RunEnd::Exit => session["end_reason"] = json!("exited"),
    }
    Ok(session)
}
