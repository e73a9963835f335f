//! Rules for groups with a label: whose bugs go to which receiver.

use crate::alerts::alerts_api::{rule, start};
use crate::alerts::frequent::{add_group, id};
use crate::alerts::messages::{in_tx, made, new_rule, steps};
use serde_json::json;
use time::Duration;
use unslide_alerts::store::events::{
    AlertCause, raise_events, raise_for_groups, raise_sent_group, raise_test,
};
use unslide_alerts::store::messages::{claim_message, finish_attempt};
use unslide_alerts::store::rules::{AlertCondition, AlertRule, AlertRuleChange, NewAlertRule};
use unslide_alerts::store::{ALERT_HOOK, rule_table};
use unslide_harness::database::TestDatabase;
use unslide_model::Scope;
use unslide_store::groups::GroupEvent;
use unslide_store::groups::labels::set_labels;
use unslide_store::queries::groups::find_group;
use unslide_store::{GroupId, Uuid};
use unslide_world::{Browser, encode_form, redirect_location};

async fn rule_for(database: &TestDatabase, condition: AlertCondition, labels: &[&str]) -> AlertRule {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    made(database, &NewAlertRule { labels, ..new_rule(condition) }).await
}

fn group(number: u8) -> GroupId {
    GroupId::from_uuid(Uuid::parse_str(&id(number)).unwrap())
}

async fn label(database: &TestDatabase, number: u8, labels: &[&str]) {
    let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    in_tx(database, async |tx| set_labels(tx, group(number), "owner:", &labels).await.unwrap()).await;
}

/// Raises these groups as new ones.
async fn raise(database: &TestDatabase, groups: &[u8]) {
    let cause =
        |number: &u8| AlertCause::new_group(group(*number), &format!("bug {number}"), "", "shop", "1.0");
    let causes: Vec<AlertCause> = groups.iter().map(cause).collect();
    in_tx(database, async |tx| raise_events(tx, AlertCondition::NewGroup, &causes).await.unwrap()).await;
}

/// Takes the steps that are due, and returns the headlines of the rule's next message.
async fn told(database: &TestDatabase, rule: &AlertRule) -> Vec<String> {
    // An event is routed, then collected.
    steps(database).await;
    steps(database).await;
    let message = in_tx(database, async |tx| claim_message(tx, rule.id).await.unwrap()).await;
    let Some(message) = message else { return Vec::new() };
    in_tx(database, async |tx| finish_attempt(tx, &message, Ok(())).await.unwrap()).await;
    message.named.into_iter().map(|event| event.headline).collect()
}

#[tokio::test]
async fn a_rule_with_labels_is_told_of_groups_that_have_one() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let every = rule_for(&database, AlertCondition::NewGroup, &[]).await;
    let team = rule_for(&database, AlertCondition::NewGroup, &["owner:@a", "owner:@b"]).await;
    let nobody = rule_for(&database, AlertCondition::NewGroup, &["owner:none"]).await;
    for number in 1..=5 {
        add_group(&database, number, None).await;
    }
    label(&database, 1, &["owner:@a", "owner:@c"]).await;
    label(&database, 2, &["owner:none"]).await;
    label(&database, 5, &["owner:@c"]).await;
    raise(&database, &[1, 2, 3, 4, 5]).await;
    assert_eq!(told(&database, &every).await.len(), 5, "a rule without labels waits for none");
    assert_eq!(told(&database, &team).await, ["New: bug 1"]);
    assert_eq!(told(&database, &nobody).await, ["New: bug 2"]);
    // The owner of a new group is found some time after its first report.
    database.wait(Duration::minutes(1));
    label(&database, 3, &["owner:@b"]).await;
    assert_eq!(told(&database, &team).await, ["New: bug 3"]);
    assert_eq!(told(&database, &nobody).await, [""; 0], "the fourth one is still waited for");
    database.wait(Duration::minutes(5));
    assert_eq!(told(&database, &nobody).await, ["New: bug 4"]);
    assert_eq!(told(&database, &team).await, [""; 0]);
    // An owner that is found later changes nothing: each group was told or dropped.
    label(&database, 4, &["owner:@a"]).await;
    database.wait(Duration::hours(1));
    assert_eq!(told(&database, &team).await, [""; 0]);
    assert_eq!(database.number("SELECT count(*) FROM alert_events WHERE route_at IS NOT NULL").await, 0);
    assert_eq!(database.number("SELECT count(*) FROM alert_events WHERE dropped").await, 6);
    database.wait(Duration::days(91));
    unslide_store::tables::purge_old_rows(&database.store).await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM alert_events").await, 0);
}

#[tokio::test]
async fn a_merged_group_has_the_labels_of_its_target_and_a_person_needs_none() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let team = rule_for(&database, AlertCondition::NewGroup, &["owner:@a"]).await;
    add_group(&database, 1, None).await;
    add_group(&database, 2, Some(1)).await;
    label(&database, 1, &["owner:@a"]).await;
    label(&database, 2, &["owner:@b"]).await;
    raise(&database, &[2]).await;
    assert_eq!(told(&database, &team).await, ["New: bug 2"]);
    // Tests and groups that a person sends reach the receiver at once.
    label(&database, 1, &["owner:@b"]).await;
    database.wait(Duration::minutes(1));
    in_tx(&database, async |tx| {
        raise_test(tx, &team).await.unwrap();
        let sent = find_group(tx, group(1), None).await.unwrap().unwrap();
        raise_sent_group(tx, team.id, &sent).await.unwrap();
    })
    .await;
    assert_eq!(told(&database, &team).await.len(), 2);
    // Without labels the events that wait are told.
    add_group(&database, 3, None).await;
    raise(&database, &[3]).await;
    assert_eq!(told(&database, &team).await, [""; 0]);
    let all = AlertRuleChange { labels: Some(Vec::new()), ..AlertRuleChange::default() };
    assert!(
        in_tx(&database, async |tx| rule_table::change_rule(tx, team.id, None, &all, None).await.unwrap())
            .await
    );
    database.wait(Duration::minutes(1));
    assert_eq!(told(&database, &team).await, ["New: bug 3"]);
}

#[tokio::test]
async fn late_symbols_bring_a_bug_to_the_team_that_it_was_not_told_to() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let team = rule_for(&database, AlertCondition::NewGroup, &["owner:@a"]).await;
    let nobody = rule_for(&database, AlertCondition::NewGroup, &["owner:none"]).await;
    add_group(&database, 1, None).await;
    label(&database, 1, &["owner:none"]).await;
    raise(&database, &[1]).await;
    assert_eq!(told(&database, &nobody).await, ["New: bug 1"]);
    assert_eq!(told(&database, &team).await, [""; 0]);
    add_group(&database, 2, None).await;
    label(&database, 2, &["owner:@a"]).await;
    database.wait(Duration::minutes(1));
    let moved = GroupEvent::Created {
        group: group(2),
        app: "shop".to_owned(),
        title: "bug 2".to_owned(),
        culprit: "Cart.add".to_owned(),
        version: "1.0".to_owned(),
        provisional: false,
        moved_from: vec![group(1)],
        received_at: database.now(),
    };
    in_tx(&database, async |tx| raise_for_groups(tx, &[moved]).await.unwrap()).await;
    assert_eq!(told(&database, &team).await, ["New: bug 2"]);
    assert_eq!(told(&database, &nobody).await, [""; 0], "it was told of the same bug");
}

#[tokio::test]
async fn labels_of_a_rule_are_checked_shown_and_changed() {
    let world = start().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let with = |condition: &str, labels: serde_json::Value| {
        let mut rule = rule("https://alerts.example.com/hook");
        rule["condition"] = condition.into();
        rule["labels"] = labels;
        rule
    };
    let many: Vec<String> = (0..21).map(|n| format!("owner:{n}")).collect();
    for (condition, labels, words) in [
        ("spike", json!(["owner:@a"]), "only with conditions about groups and summary, not with spike"),
        ("new_group", json!(["@a"]), "\"@a\" is none; write a word, a colon and a value"),
        ("new_group", json!(["owner:"]), "\"owner:\" is none"),
        ("new_group", json!(["owner:a b"]), "\"owner:a b\" is none"),
        ("new_group", json!(many), "21 are given; write at most 20"),
    ] {
        let answer = world.post_json("/v1/alert-rules", &key, &with(condition, labels)).await;
        let detail = answer.expect_problem(400, "invalid-body");
        assert!(detail.contains(words), "{detail}");
    }
    let new = with("new_group", json!(["owner:@a", "owner:none"]));
    let made = world.post_json("/v1/alert-rules", &key, &new).await.expect_status(201);
    assert_eq!(made["labels"], json!(["owner:@a", "owner:none"]));
    let path = format!("/v1/alert-rules/{}", made["id"].as_str().unwrap());
    let other = world.patch(&path, &key, &json!({"labels": ["owner:@b"]})).await.expect_status(200);
    assert_eq!(other["labels"], json!(["owner:@b"]));
    let answer = world.patch(&path, &key, &json!({"labels": many})).await;
    answer.expect_problem(400, "invalid-body");
    let same = world.patch(&path, &key, &json!({"name": "other"})).await.expect_status(200);
    assert_eq!(same["labels"], json!(["owner:@b"]));
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.fetch_page("/console/alerts").await;
    assert!(page.contains("only owner:@b") && page.contains("value=\"owner:@b\""), "{page}");
    let id = made["id"].as_str().unwrap();
    let edited = encode_form(&[("name", "other"), ("labels", "owner:@b  owner:none")]);
    let saved = browser.post(&format!("/console/alerts/{id}/rule"), edited).await;
    assert_eq!(redirect_location(&saved), "/console/alerts");
    assert!(browser.fetch_page("/console/alerts").await.contains("only owner:@b or owner:none"));
    let none = world.patch(&path, &key, &json!({"labels": []})).await.expect_status(200);
    assert_eq!(none.get("labels"), None);
    world.stop().await;
}
