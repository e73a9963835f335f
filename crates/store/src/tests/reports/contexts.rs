//! The state of apps and devices, and the apps' own keys, in the reports of a group.

use super::groups::of_bug;
use crate::groups::{self as actions, GroupActor, id_of};
use crate::queries::groups::context::{self, ContextKeyUse, FactShare, KeyValueUse};
use crate::reports::Arrival;
use crate::tests::database::{Database, acme, grouping};
use serde_json::json;

fn made_in(n: u8, bug: u8, context: serde_json::Value) -> Arrival {
    let mut arrival = of_bug(n, "1.0", 0);
    arrival.facts.grouping = Some(grouping(bug, false));
    arrival.facts.context = context;
    arrival
}

#[tokio::test]
async fn a_group_counts_facts_and_keys_of_its_newest_reports() {
    let database = Database::new().await;
    let state = |background: bool, plan: &str| json!({"facts": {"in_background": background}, "keys": {"plan": plan, "nul\0": 1}});
    database
        .store(&[
            made_in(1, 7, state(true, "pro")),
            made_in(2, 8, state(true, "free")),
            made_in(3, 7, state(false, "pro")),
            made_in(
                4,
                7,
                json!({"facts": {"jailbroken": false}, "verdicts": {"fault": "null_pointer"},
                "subjects": {"fault": "cart"}}),
            ),
            made_in(5, 7, json!({"verdicts": {"fault": "null_pointer"}, "subjects": {"fault": "cart"}})),
            made_in(8, 7, json!({"verdicts": {"fault": "null_pointer"}, "subjects": "none"})),
            made_in(6, 7, json!("x".repeat(20_000))),
            made_in(7, 9, state(true, "another bug")),
        ])
        .await;
    let group = |bug: u8| id_of("com.acme.shop", grouping(bug, false).fingerprint);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let actor = GroupActor { actor: "test", name: None };
    actions::merge_groups(&mut tx, group(7), &[group(8)], None, actor).await.unwrap();
    let found = context::read_group_context(&mut tx, group(7)).await.unwrap();
    assert_eq!(found.sample, 7);
    let fact = |name: &str, known, reports| FactShare { name: name.to_owned(), known, reports };
    assert_eq!(found.facts, [fact("in_background", 3, 2), fact("jailbroken", 1, 0)]);
    let key = |name: &str, values| ContextKeyUse { name: name.to_owned(), reports: 3, values };
    assert_eq!(found.keys, [key("nul\u{fffd}", 1), key("plan", 2)]);
    let counted = found
        .verdicts
        .iter()
        .map(|one| (one.analysis.as_str(), one.verdict.as_str(), one.subject.as_deref(), one.reports));
    assert_eq!(
        counted.collect::<Vec<_>>(),
        [("fault", "null_pointer", Some("cart"), 2), ("fault", "null_pointer", None, 1)]
    );
    let chosen = ["plan".to_owned(), "unknown".to_owned()];
    let values = context::count_key_values(&mut tx, group(7), &chosen).await.unwrap();
    let value =
        |value: &str, reports| KeyValueUse { key: "plan".to_owned(), value: value.to_owned(), reports };
    assert_eq!(values, [value("pro", 2), value("free", 1)]);
    let none = context::read_group_context(&mut tx, group(1)).await.unwrap();
    assert_eq!((none.sample, none.facts.len(), none.keys.len()), (0, 0, 0));
}
