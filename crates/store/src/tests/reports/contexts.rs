//! The state of apps and devices, and the apps' own keys, in the reports of a group.

use super::groups::of_bug;
use crate::groups::{self as actions, GroupActor, id_of};
use crate::queries::groups::context::{self, ContextKeyUse, FactShare, HintShare, KeyValueUse};
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

#[tokio::test]
async fn a_hint_has_the_other_groups_of_its_only_device() {
    let database = Database::new().await;
    let hinted = |n: u8, bug: u8, device: Option<u8>| {
        let hints = json!({"verdicts": {"fault": "invalid_pointer"}, "hints": {"fault": "one_bit_from"}});
        let mut arrival = made_in(n, bug, hints);
        arrival.facts.device = device.map(|device| vec![device; 16]);
        arrival
    };
    let without_hint = |n: u8, bug: u8, device: u8| {
        let mut arrival = hinted(n, bug, Some(device));
        arrival.facts.context = json!({"hints": {"other": "one_bit_from", "fault": "another"}});
        arrival
    };
    let mut of_other_app = hinted(9, 13, Some(1));
    of_other_app.facts.app = "com.acme.other".to_owned();
    database
        .store(&[
            // Two of a bug, and one each of three other bugs, two of which are merged.
            hinted(1, 7, Some(1)),
            hinted(2, 7, Some(1)),
            hinted(3, 8, Some(1)),
            hinted(4, 9, Some(1)),
            hinted(5, 10, Some(1)),
            without_hint(6, 11, 1),
            // Another device, a device that is not known, and another app.
            hinted(7, 12, Some(2)),
            hinted(8, 12, None),
            of_other_app,
            hinted(10, 14, Some(3)),
            without_hint(11, 14, 4),
        ])
        .await;
    let group = |bug: u8| id_of("com.acme.shop", grouping(bug, false).fingerprint);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let actor = GroupActor { actor: "test", name: None };
    actions::merge_groups(&mut tx, group(9), &[group(10)], None, actor).await.unwrap();
    let mut read = async |bug: u8| {
        let found = context::read_group_context(&mut tx, group(bug)).await.unwrap();
        let hints =
            found.hints.into_iter().filter(|share| share.hint == "one_bit_from" && share.analysis == "fault");
        (found.from_one_device, hints.collect::<Vec<_>>())
    };
    let share = |reports, devices, other_groups_of_device| HintShare {
        analysis: "fault".into(),
        hint: "one_bit_from".into(),
        reports,
        devices,
        other_groups_of_device,
    };
    assert_eq!(read(7).await, (true, vec![share(2, 1, Some(2))]));
    assert_eq!(read(9).await, (true, vec![share(2, 1, Some(2))]), "its merged group is no other one");
    assert_eq!(read(12).await, (false, vec![share(2, 1, None)]), "a device is not known");
    assert_eq!(read(14).await, (false, vec![share(1, 1, Some(0))]));
    assert_eq!(read(11).await, (true, vec![]));
}
