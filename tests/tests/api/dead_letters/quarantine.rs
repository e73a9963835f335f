//! Quarantined records: what operators see, and what a replay leaves behind.

use crate::world::{World, tenant};
use serde_json::Value;
use unslide_model::Scope;
use unslide_store::Uuid;
use unslide_store::quarantine::{self, NewRecord, ReplayStatus};

/// Puts a record into quarantine, and gives its id.
pub async fn quarantined(world: &World, of: Option<&str>, reason: &str, offset: i64) -> Uuid {
    let record = NewRecord {
        topic: "crash.symbolicated".into(),
        topic_id: "0a".repeat(16),
        partition: 1,
        offset,
        tenant: of.map(tenant),
        reason: reason.into(),
        detail: "at 7".into(),
    };
    let mut tx = world.store.batch().await.unwrap();
    assert!(quarantine::add(&mut tx, &record).await.unwrap());
    tx.commit().await.unwrap();
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    quarantine::list(&mut tx, &quarantine::QuarantineFilter::default(), None, 1).await.unwrap()[0].id
}

fn offsets(page: &Value) -> Vec<i64> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|item| item["place"]["offset"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn operators_list_quarantined_records_and_ask_for_replays() {
    let world = World::start().await;
    let key = world.key("acme", &[Scope::Operator]).await;
    let first = quarantined(&world, Some("acme"), "panicked", 1).await;
    quarantined(&world, Some("umbrella"), "constraint_violation", 2).await;
    // No tenant of this name is known.
    quarantined(&world, Some("stranger"), "panicked", 3).await;
    let get = async |query: &str| world.get(&format!("/v1/operator/quarantine{query}"), &key).await;
    let all = get("").await.expect(200);
    assert_eq!(offsets(&all), [3, 2, 1]);
    assert_eq!((&all["items"][0]["tenant"], &all["items"][1]["tenant"]), (&Value::Null, &"umbrella".into()));
    for (query, found) in [
        ("?tenant=acme", vec![1]),
        ("?tenant=", vec![3]),
        ("?reason=panicked", vec![3, 1]),
        ("?stored=false", vec![3, 2, 1]),
        ("?stored=true", vec![]),
    ] {
        assert_eq!(offsets(&get(query).await.expect(200)), found, "{query}");
    }
    let page = get("?limit=2").await.expect(200);
    assert_eq!(offsets(&page), [3, 2]);
    let next = format!("?limit=2&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(offsets(&get(&next).await.expect(200)), [1]);
    get(&format!("{next}&tenant=acme")).await.expect_problem(400, "invalid-parameter");

    let one = format!("/v1/operator/quarantine/{first}");
    assert!(world.get(&one, &key).await.expect(200).get("replay").is_none());
    let asked = world.post(&format!("{one}/replay"), &key, "").await.expect(202);
    assert_eq!(asked["replay"]["status"], "requested");
    let due = quarantine::replays_due(&world.store, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.id).collect::<Vec<_>>(), [first]);
    let mut tx = world.store.batch().await.unwrap();
    let (status, why) = (ReplayStatus::PastRetention, "the topic does not hold the record any more");
    assert!(quarantine::replayed(&mut tx, first, status, Some(why)).await.unwrap());
    tx.commit().await.unwrap();
    let ended = world.get(&one, &key).await.expect(200);
    assert_eq!(
        (&ended["replay"]["status"], &ended["replay"]["detail"]),
        (&status.as_str().into(), &why.into())
    );
    assert!(quarantine::replays_due(&world.store, 10).await.unwrap().is_empty());
    // Each replay is in the audit log.
    assert_eq!(world.number("SELECT count(*) FROM audit_log WHERE action = 'quarantine.replay'").await, 1);
    let never = format!("/v1/operator/quarantine/{}/replay", Uuid::nil());
    world.post(&never, &key, "").await.expect_problem(404, "not-found");
    world.stop().await;
}
