//! `POST /i/{key}/runs`: summaries of runs, and the shares that are counted of them.

use super::sessions::{sent, store};
use crate::reports::{A, crash, store as store_report};
use crate::world::World;
use reqwest::Method;
use serde_json::{Value, json};
use time::Duration;
use unslide_proto::headers;

const APP: &str = "com.example.shop";
/// Installations of the simulated fleet, and runs of each.
const INSTALLATIONS: usize = 40;
const RUNS: usize = 5;

/// The summary of a run that ended a while ago.
fn summary(world: &World, run: usize, installation: usize, reason: &str) -> Value {
    let end = world.host.clock.now() - Duration::minutes(i64::try_from(run).unwrap());
    let millis = i64::try_from(end.unix_timestamp_nanos() / 1_000_000).unwrap();
    json!({
        "schema_version": 1, "sdk_version": "3.0.0", "run_id": format!("5B7D1C34-8A0F-4F0E-9D53-{run:012X}"),
        "device_id": format!("device {installation}"), "started_at_ms": millis - 60_000, "ended_at_ms": millis,
        "is_being_debugged": false, "outcome": {"termination_reason": reason, "user_perceptible": true},
        "durations_ms": {"active": 50_000, "background": 10_000},
        "app": {"bundle_id": APP, "version": "820", "short_version": "3.1.4", "host_kind": "app", "build_type": "app store"},
        "os": {"name": "iOS", "version": "27.0", "build": "24A335"}, "device": {"model": "iPhone18,1"},
    })
}

async fn post_runs(world: &World, key: &str, body: String) -> Value {
    let request =
        world.request(Method::POST, &format!("/i/{key}/runs"), "").header("accept", "application/json");
    world.send(request.body(body)).await.expect_status(202)
}

async fn public_key(world: &World) -> String {
    let admin = world.create_master_key("acme").await;
    let new = json!({"name": "app", "apps": [APP]});
    let key = world.post_json("/v1/public-keys", &admin, &new).await.expect_status(201);
    key["key"].as_str().unwrap().to_owned()
}

/// Stores the events in the topic as an indexer does.
async fn store_sent(world: &World, at_least: usize) -> usize {
    let records = sent(world, at_least).await;
    let accepted = records.iter().filter(|record| record.headers.get_text(headers::REFUSED_REASON).is_none());
    let events: Vec<Value> =
        accepted.map(|record| serde_json::from_slice(record.value.as_deref().unwrap()).unwrap()).collect();
    store(world, "acme", &events).await;
    events.len()
}

/// Late, doubled and missing summaries.
#[tokio::test]
async fn shares_of_run_summaries_equal_the_truth_of_a_fleet() {
    let world = World::start().await;
    let key = public_key(&world).await;
    let (mut delivered, mut crashed_runs, mut installations, mut crashed_installations) =
        (Vec::new(), 0, 0, 0);
    for installation in 0..INSTALLATIONS {
        let (mut runs, mut crashes) = (0, 0);
        for at in 0..RUNS {
            let run = installation * RUNS + at;
            // Every eleventh summary is lost, every seventh run crashes.
            if run % 11 == 3 {
                continue;
            }
            let has_crashed = run % 7 == 2;
            (runs, crashes) = (runs + 1, crashes + usize::from(has_crashed));
            let reason = if has_crashed { "crash" } else { ["clean", "app_upgrade", "reboot"][run % 3] };
            delivered.push(summary(&world, run, installation, reason));
        }
        crashed_runs += crashes;
        installations += usize::from(runs > 0);
        crashed_installations += usize::from(crashes > 0);
    }
    let truth = delivered.len();
    // The last ones first, and a third of them twice: in one request and in another one.
    delivered.reverse();
    let doubled: Vec<Value> = delivered.iter().step_by(3).cloned().collect();
    let (late, early) = delivered.split_at(truth / 2);
    for part in [early, late, &doubled[..]] {
        let lines: Vec<String> = part.iter().map(Value::to_string).collect();
        let body =
            if part.len() == doubled.len() { lines.join("\n") } else { format!("[{}]", lines.join(",")) };
        let answer = post_runs(&world, &key, body).await;
        assert_eq!(answer["accepted"].as_array().unwrap().len(), part.len(), "{answer}");
        assert_eq!(answer["refused"], json!([]));
    }
    assert_eq!(store_sent(&world, truth + doubled.len()).await, truth + doubled.len());
    let reader = world.create_master_key("acme").await;
    let health = world.get(&format!("/v1/apps/{APP}/health"), &reader).await.expect_status(200);
    let period = &health["period"];
    assert_eq!((&period["sessions"], &period["crashed_sessions"]), (&json!(truth), &json!(crashed_runs)));
    let share = |crashed: usize, all: usize| {
        1.0 - f64::from(u32::try_from(crashed).unwrap()) / f64::from(u32::try_from(all).unwrap())
    };
    let is_near = |found: &Value, wanted: f64, error: f64| (found.as_f64().unwrap() - wanted).abs() < error;
    assert!(is_near(&period["crash_free_sessions"], share(crashed_runs, truth), 0.000_1), "{period}");
    let counted = period["installations"].as_u64().unwrap();
    assert!(counted.abs_diff(installations as u64) <= 1, "an approximate count of {installations}: {period}");
    let wanted = share(crashed_installations, installations);
    assert!(is_near(&period["crash_free_installations"], wanted, 0.05), "{wanted}: {period}");
    world.stop().await;
}

#[tokio::test]
async fn a_summary_joins_its_report_and_runs_of_developers_are_not_counted() {
    let world = World::start().await;
    let key = public_key(&world).await;
    let run = summary(&world, 1, 1, "crash");
    let id = run["run_id"].as_str().unwrap().to_lowercase();
    let mut report = crash(A, "3.1.4");
    report["report"]["run_id"] = run["run_id"].clone();
    store_report(&world, "acme", &report, 1, world.host.clock.now()).await;
    let mut debugged = summary(&world, 2, 1, "crash");
    debugged["is_being_debugged"] = true.into();
    let mut other = summary(&world, 3, 1, "clean");
    other["app"]["bundle_id"] = "com.example.bank".into();
    let body = format!("[{run},{debugged},{other},{{\"run_id\": }},7]");
    let answer = post_runs(&world, &key, body).await;
    assert_eq!(answer["accepted"].as_array().unwrap().len(), 2, "{answer}");
    let refused: Vec<(u64, &str)> = answer["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| (refused["index"].as_u64().unwrap(), refused["type"].as_str().unwrap()))
        .collect();
    assert_eq!(refused, [(2, "wrong_app"), (3, "bad_session"), (4, "bad_session")]);
    assert_eq!(store_sent(&world, 4).await, 1);
    let reader = world.create_master_key("acme").await;
    let path = format!("/v1/sessions/{id}?app={APP}");
    let whole = world.get(&path, &reader).await.expect_status(200);
    let kinds: Vec<&str> =
        whole["items"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"ended") && kinds.contains(&"report"), "{kinds:?}");
    let text =
        world.send(world.request(Method::POST, &format!("/i/{key}/runs"), "").body(run.to_string())).await;
    assert_eq!((text.status.as_u16(), text.text.as_str()), (202, "accepted 1 run summary"));
    let empty = world.send(world.request(Method::POST, &format!("/i/{key}/runs/"), "").body(" ")).await;
    assert_eq!((empty.status.as_u16(), empty.text.as_str()), (400, "the body has no run summary"));
    world.stop().await;
}
