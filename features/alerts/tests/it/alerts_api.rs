//! A running api with alerts.

use serde_json::{Value, json};
use unslide_alerts::Config;
use unslide_alerts::store::events::{AlertCause, raise_for};
use unslide_alerts::store::messages::{collect_events, list_messages};
use unslide_alerts::store::{AlertMessageId, AlertRuleId, rule_table};
use unslide_store::{GroupId, Uuid};
use unslide_world::{World, tenant_id};

/// A world of this feature and the console, with the default settings.
pub async fn start() -> World {
    start_with(Config::default()).await
}

/// A world whose only features are this one, the figures that it watches, and the console.
pub async fn start_with(config: Config) -> World {
    let feature = unslide_alerts::feature(config);
    assert_eq!(feature.settings.as_ref().unwrap().problems, []);
    let features =
        unslide_feature::for_api(&[feature, unslide_health::feature(), unslide_console::feature()]);
    World::start(features, |_| {}).await
}

/// A rule that tells a URL of new groups.
pub fn rule(address: &str) -> Value {
    json!({"name": "new bugs", "condition": "new_group", "channel": "webhook", "address": address})
}

/// A rule of a tenant, and a message of it.
pub async fn rule_with_message(world: &World, of: &str) -> (AlertRuleId, AlertMessageId) {
    let mut tx = world.store.tenant(&tenant_id(of)).await.unwrap();
    let new = serde_json::from_value(rule("https://alerts.example.com/hook")).unwrap();
    let rule = rule_table::create_rule(&mut tx, &new, None).await.unwrap().unwrap();
    let cause =
        AlertCause::new_group(GroupId::from_uuid(Uuid::from_u128(1)), "title", "culprit", "app", "1.0");
    raise_for(&mut tx, rule.id, &[cause]).await.unwrap();
    assert!(collect_events(&mut tx, rule.id).await.unwrap());
    let message = list_messages(&mut tx, Some(rule.id), None, None, 1).await.unwrap().remove(0);
    tx.commit().await.unwrap();
    (rule.id, message.id)
}
