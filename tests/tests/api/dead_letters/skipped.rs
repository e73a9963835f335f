//! Records that the indexer skipped: who sees them, and what a replay leaves behind.

use super::{note, noted};
use crate::world::{World, tenant_id};
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::dead_letters::{self, DeadLetter, DeadLetterId, DeadLetterStage, ReplayResult};

/// Records that the indexer could not store a record, and returns the id of the dead letter.
pub async fn skipped(world: &World, of: Option<&str>, reason: &str, offset: i64) -> String {
    let id = DeadLetterId { topic_id: "0b".repeat(16), partition: 1, offset };
    let letter = DeadLetter {
        stage: DeadLetterStage::Store,
        topic: "crash.symbolicated".to_owned(),
        attempt: None,
        origin: None,
        ..noted(world, id, of, reason)
    };
    note(world, letter).await
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// Proves: isolation
#[tokio::test]
async fn skipped_records_are_listed_with_the_others_and_replayed_by_the_indexer() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let acmes = skipped(&world, Some("acme"), "constraint_violation", 1).await;
    let theirs = skipped(&world, Some("umbrella"), "constraint_violation", 2).await;
    // No tenant of this name is known.
    let strangers = skipped(&world, Some("stranger"), "panicked", 3).await;
    let all = async |query: &str| {
        world.get(&format!("/v1/operator/dead-letters{query}"), &operator).await.expect_status(200)
    };
    for (query, found) in [
        ("", vec![&strangers, &theirs, &acmes]),
        ("?stage=store", vec![&strangers, &theirs, &acmes]),
        ("?stage=read", vec![]),
        ("?tenant=", vec![&strangers]),
        ("?reason=panicked", vec![&strangers]),
        ("?status=waiting&tenant=acme", vec![&acmes]),
        ("?status=replayed", vec![]),
    ] {
        assert_eq!(ids(&all(query).await), found, "{query}");
    }
    for wrong in ["?stage=build", "?status=stored"] {
        let answer = world.get(&format!("/v1/dead-letters{wrong}"), &admin).await;
        answer.expect_problem(400, "invalid-parameter");
    }
    let own = world.get("/v1/dead-letters", &admin).await.expect_status(200);
    assert_eq!(ids(&own), [&acmes]);
    let hidden = world.post_json(&format!("/v1/dead-letters/{theirs}/replay"), &admin, &json!({})).await;
    hidden.expect_problem(404, "not-found");

    // The bytes are in a topic that the API does not read.
    let one = format!("/v1/dead-letters/{acmes}");
    let shown = world.get(&one, &admin).await.expect_status(200);
    assert_eq!((&shown["held"], &shown["topic"]), (&json!(false), &json!("crash.symbolicated")));
    assert!(shown["lost"].as_str().unwrap().contains("crash.symbolicated/1 at offset 1"), "{shown}");
    world.get(&format!("{one}/body"), &admin).await.expect_problem(404, "not-found");

    let ask = async || world.post_json(&format!("{one}/replay"), &admin, &json!({})).await;
    let end = async |result: ReplayResult| {
        let due = dead_letters::requested_replays(&world.store, 10).await.unwrap();
        assert_eq!(due.iter().map(|due| due.id.to_string()).collect::<Vec<_>>(), [&*acmes]);
        let mut tx = world.store.batch().await.unwrap();
        assert!(dead_letters::record_replay_result(&mut tx, &due[0].id, &result).await.unwrap());
        tx.commit().await.unwrap();
        world.get(&one, &admin).await.expect_status(200)
    };
    assert_eq!(ask().await.expect_status(200), json!({"id": acmes, "status": "requested"}));
    let failed = end(ReplayResult::Failed("constraint_violation: at 7".to_owned())).await;
    assert_eq!((&failed["status"], &failed["replays"]), (&json!("failed"), &json!(1)));
    assert_eq!(failed["replay_detail"], "constraint_violation: at 7");
    ask().await.expect_status(200);
    let stored = end(ReplayResult::Stored).await;
    assert_eq!((&stored["status"], stored.get("replay_detail")), (&json!("replayed"), None));
    ask().await.expect_problem(409, "already-replayed");
    // Each replay is in the audit log.
    let logged = "SELECT count(*) FROM audit_log WHERE tenant = 'acme' AND action = 'dead_letter.replay'";
    assert_eq!(world.number(logged).await, 2);
    world.stop().await;
}

#[tokio::test]
async fn skipped_records_are_replayed_by_their_stage() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    for offset in 0..3 {
        skipped(&world, Some("acme"), "constraint_violation", offset).await;
    }
    skipped(&world, Some("acme"), "panicked", 3).await;
    let replay = async |body: Value| {
        world.post_json("/v1/operator/dead-letters/replay", &operator, &body).await.expect_status(200)
    };
    assert_eq!(replay(json!({"stage": "symbolize"})).await["matched"], 0);
    let done = replay(json!({"stage": "store"})).await;
    let expected = json!({"matched": 4, "replayed": 3, "gone": 0, "dangerous": 1, "more": false});
    assert_eq!(done, expected);
    assert_eq!(dead_letters::requested_replays(&world.store, 10).await.unwrap().len(), 3);
    // Those that the indexer is asked for are not asked for again.
    assert_eq!(replay(json!({"stage": "store"})).await["replayed"], 0);
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let log = unslide_store::audit::list_entries(&mut tx, None, 10).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(log.iter().all(|entry| entry.action != "dead_letter.replay"), "the operator's tenant has it");
    world.stop().await;
}
