//! Whether a version may go on: the operation, the section of the version's page, and the command with its exit codes.

use crate::verdicts::counted_world::{APP, CountedWorld};
use serde_json::{Value, json};
use unslide_cli::Exit;
use unslide_commands::verdicts::FEATURE;
use unslide_model::Scope;
use unslide_world::{Browser, wait_until};

/// Stores days on which few have 2.5.0 and most have 2.4.1, with these crashed sessions of 2.5.0 each.
async fn store_release(world: &CountedWorld, crashed: i32) {
    for day in 1..=4 {
        world.store_sessions("2.4.1", day, [20_000, 100]).await;
        world.store_sessions("2.4.0", day, [300, 1]).await;
        world.store_sessions("2.5.0", day, [5_000, crashed]).await;
    }
}

async fn check(world: &CountedWorld, query: &str) -> Value {
    let path = format!("/v1/apps/{APP}/versions/2.5.0/check{query}");
    world.get(&path, &world.key).await.expect_status(200)
}

/// Runs the command. It prints its reasons to the output of the test.
async fn run_command(world: &CountedWorld, more: &[&'static str]) -> Exit {
    let line = ["check", "--url", &world.url, "--api-key", &world.key, "--app", APP, "--version", "2.5.0"];
    let line = line.into_iter().chain(more.iter().copied());
    let matches = (FEATURE.commands[0].command)().get_matches_from(line);
    tokio::task::spawn_blocking(move || (FEATURE.commands[0].run)(&matches).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_with_more_crashes_is_bad() {
    let world = CountedWorld::start().await;
    store_release(&world, 60).await;
    world.store_reports(1, "2.5.0", 2, 30).await;
    let found = check(&world, "").await;
    assert_eq!(
        (&found["verdict"], &found["against"], &found["days"]),
        (&json!("bad"), &json!("2.4.1"), &json!(4))
    );
    assert_eq!(
        found["reasons"],
        json!([
            "bad: 2.5.0 has more than 2.4.1 of: crashed sessions, new crashes",
            "crashed sessions: 240 of 20,000, 100 expected; new crashes: 30 in 20,000 sessions, 0 expected",
            "compared on 4 days on which both are in use; not measured: out of memory sessions, hangs, slow launches"
        ])
    );
    assert_eq!(run_command(&world, &[]).await, Exit::Failed);
    assert_eq!(run_command(&world, &["--json"]).await, Exit::Failed);
    let page = Browser::signed_in(&world, &world.key).await;
    let page = page.fetch_page(&format!("/console/version?app={APP}&version=2.5.0")).await;
    for words in ["May it go on to more people?", "bad: 2.5.0 has more than 2.4.1", "new crashes"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_release_is_good_and_one_of_few_sessions_too_early() {
    let world = CountedWorld::start().await;
    store_release(&world, 22).await;
    let found = check(&world, "").await;
    assert_eq!(found["verdict"], "good", "{found}");
    assert_eq!(run_command(&world, &[]).await, Exit::Ready);
    let early = check(&world, "?against=2.4.0").await;
    assert_eq!((&early["verdict"], &early["against"]), (&json!("too_early"), &json!("2.4.0")), "{early}");
    assert_eq!(run_command(&world, &["--against", "2.4.0"]).await as u8, 4);
    let same = format!("/v1/apps/{APP}/versions/2.5.0/check?against=2.5.0");
    world.get(&same, &world.key).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn launches_and_hangs_are_measured_if_both_versions_send_them() {
    let world = CountedWorld::start().await;
    world.store_sessions("2.4.1", 2, [2_000, 0]).await;
    world.store_sessions("2.5.0", 2, [500, 0]).await;
    let usual: Vec<u32> = (0..60).map(|n| 300 + n).collect();
    world.store_launches("2.4.1", 5, &usual, false).await;
    world.store_launches("2.4.1", 2, &usual, false).await;
    let found = check(&world, "").await;
    assert_eq!(found["not_measured"], json!(["out_of_memory_sessions", "hangs", "slow_launches"]));
    world.store_launches("2.5.0", 2, &[800; 60], true).await;
    let found = check(&world, "").await;
    assert_eq!(found["not_measured"], json!(["out_of_memory_sessions"]));
    let measures = found["measures"].as_array().unwrap();
    let counts = |place: usize| {
        let measure = &measures[place];
        (measure["measure"].as_str().unwrap(), measure["observations"].clone(), measure["events"].clone())
    };
    assert_eq!(counts(2), ("hangs", json!(500), json!(60)));
    assert_eq!(counts(3), ("slow_launches", json!(60), json!(60)));
    assert_eq!(found["verdict"], "bad");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_says_what_to_do() {
    let world = CountedWorld::start().await;
    let path = format!("/v1/apps/{APP}/versions/2.5.0/check");
    world.get(&path, &world.key).await.expect_problem(404, "not-found");
    world.store_reports(1, "2.5.0", 2, 3).await;
    let found = check(&world, "").await;
    assert_eq!(found["verdict"], "too_early");
    assert!(found["hint"].as_str().unwrap().contains("POST /v1/sessions"), "{found}");
    assert_eq!(run_command(&world, &[]).await as u8, 4);
    world.store_sessions("2.4.1", 3, [100, 1]).await;
    assert!(check(&world, "").await["hint"].as_str().unwrap().starts_with("No session of this version"));
    world.store_sessions("2.5.0", 2, [100, 1]).await;
    assert!(check(&world, "").await["hint"].as_str().unwrap().starts_with("No older version"));
    assert!(check(&world, "?against=2.4.1").await["hint"].as_str().unwrap().starts_with("The two versions"));
    let foreign = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    let other_app = world.key_for("acme", &[Scope::ReportsRead], Some("com.acme.other")).await;
    for key in [foreign, other_app] {
        world.get(&path, &key).await.expect_problem(404, "not-found");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_rule_tells_of_a_bad_release_once() {
    let world = CountedWorld::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    store_release(&world, 60).await;
    // A build of a developer is newer, and too young to be judged.
    world.store_sessions("99.0", 1, [3, 1]).await;
    let rule = json!({"name": "bad releases", "condition": "bad_release", "channel": "kafka"});
    world.post_json("/v1/alert-rules", &admin, &rule).await.expect_status(201);
    let told = async || {
        sqlx::query_as::<_, (String, String, String)>("SELECT headline, detail, path FROM alert_events")
            .fetch_all(&mut world.connect().await)
            .await
            .unwrap()
    };
    assert!(wait_until(async || !told().await.is_empty()).await);
    sqlx::query("UPDATE alert_rules SET next_evaluation_at = created_at")
        .execute(&mut world.connect().await)
        .await
        .unwrap();
    let is_evaluated = "SELECT next_evaluation_at > created_at + interval '59 minutes' FROM alert_rules";
    assert!(
        wait_until(async || {
            sqlx::query_scalar(is_evaluated).fetch_one(&mut world.connect().await).await.unwrap()
        })
        .await
    );
    let wanted = (
        "com.acme.shop 2.5.0 is worse than 2.4.1".to_owned(),
        "crashed sessions: 240 of 20,000, 100 expected; new crashes: 0 in 20,000 sessions, 0 expected"
            .to_owned(),
        "/console/version?app=com.acme.shop&version=2.5.0".to_owned(),
    );
    assert_eq!(told().await, [wanted]);
    world.stop().await;
}
