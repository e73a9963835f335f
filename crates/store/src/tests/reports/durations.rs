//! How long the reports of a group took.

use super::groups::of_bug;
use crate::groups::{self as actions, GroupActor, id_of};
use crate::queries::durations::{self, VersionDurations};
use crate::reports::Arrival;
use crate::tests::database::{Database, acme, grouping};
use sqlx::Row;

fn took(n: u8, version: &str, bug: u8, summary: serde_json::Value) -> Arrival {
    let mut arrival = of_bug(n, version, 0);
    arrival.facts.grouping = Some(grouping(bug, false));
    arrival.facts.summary = summary;
    arrival
}

#[tokio::test]
async fn durations_are_of_the_group_and_of_what_is_merged_into_it() {
    let database = Database::new().await;
    let millis = |millis: u32| serde_json::json!({"duration_ms": millis});
    database
        .store(&[
            took(1, "1.0", 7, millis(300)),
            took(2, "1.0", 8, millis(500)),
            took(3, "1.0", 8, millis(100)),
            took(4, "2.0", 7, millis(900)),
            took(7, "2.0", 7, millis(1_001)),
            took(5, "2.0", 7, serde_json::json!({})),
            took(6, "2.0", 9, millis(7_000)),
        ])
        .await;
    let group = |bug: u8| id_of("com.acme.shop", grouping(bug, false).fingerprint);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let actor = GroupActor { actor: "test", name: None };
    actions::merge_groups(&mut tx, group(7), &[group(8)], None, actor).await.unwrap();
    let of = |version: &str, reports, median_ms, longest_ms| VersionDurations {
        version: version.to_owned(),
        reports,
        median_ms,
        longest_ms,
    };
    let found = durations::group_durations(&mut tx, group(7)).await.unwrap();
    assert_eq!(found, [of("2.0", 2, 951, 1_001), of("1.0", 3, 300, 500)], "of two it is the mean");
}

#[tokio::test]
async fn the_newest_reports_of_each_group_come_from_the_index_in_its_order() {
    let database = Database::new().await;
    database.store(&[of_bug(1, "1.0", 0)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (connection, ..) = tx.parts();
    for way in ["enable_seqscan", "enable_bitmapscan"] {
        let off = format!("SET LOCAL {way} = off");
        sqlx::query(sqlx::AssertSqlSafe(off)).execute(&mut *connection).await.unwrap();
    }
    let plan = sqlx::query(
        "EXPLAIN (COSTS off) SELECT n.received_at FROM unnest(ARRAY[gen_random_uuid()]) AS g (id) CROSS JOIN LATERAL (
             SELECT r.received_at FROM reports r WHERE r.tenant = 'acme' AND r.group_id = g.id
             ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT 1000) n",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(!plan.contains("Sort"), "{plan}");
    assert!(plan.contains("Index Cond: ((tenant = 'acme'::text) AND (group_id = g.id))"), "{plan}");
}
