//! What the workers are told of tenants.

use crate::world::{World, acme};
use unslide_proto::Message;
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_store::tenants::{self, Limits, State};
use unslide_store::{erasure, keys, outbox};

/// Every version reaches the topic in its order, deletion as a record, and nothing in it is secret or
/// personal.
#[tokio::test(flavor = "multi_thread")]
async fn versions_come_in_order_and_carry_no_secrets() {
    let world = World::start(2).await;
    let mut topic = world.read(&world.config.kafka.topics().tenant_config);
    let key = keys::NewKey {
        name: "the pipeline of Ada Lovelace".into(),
        scopes: vec![unslide_model::Scope::TenantAdmin],
        app: None,
        expires_at: None,
    };
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let (key, text) = keys::create(&mut tx, &key, &[7; 30]).await.unwrap();
    tx.commit().await.unwrap();
    // All at once: the row's lock gives them their order.
    let changes = (1..=8_u32).map(|n| {
        let store = world.store.clone();
        async move {
            let mut tx = store.tenant(&acme()).await.unwrap();
            let limits = Limits { reports_per_second: n, ..Limits::default() };
            let changed =
                tenants::change(&mut tx, "Acme of Ada Lovelace", State::Active, &limits).await.unwrap();
            tx.commit().await.unwrap();
            changed.unwrap().1
        }
    });
    let sent = futures::future::join_all(changes).await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let (_, deletion) = erasure::begin(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let long = std::time::Duration::from_secs(30);
    assert!(outbox::wait_sent(&world.store, &acme(), deletion.unwrap(), long).await.unwrap());
    for id in sent {
        assert!(outbox::wait_sent(&world.store, &acme(), id, long).await.unwrap(), "none is overtaken");
    }
    let secret = text.reveal().rsplit_once('_').unwrap().1.to_owned();
    for version in 1..=10 {
        let record = topic.next().await;
        let value = record.value.clone().expect("a record and no tombstone");
        let whole = format!("{record:?} {}", String::from_utf8_lossy(&value));
        for hidden in [secret.as_str(), &key.prefix, &key.id.to_string(), "Ada", "Lovelace"] {
            assert!(!whole.contains(hidden), "{hidden} is in version {version}");
        }
        let config = TenantConfig::decode(value).unwrap();
        assert_eq!((config.tenant.as_str(), config.version), ("acme", version));
        let state = if version == 10 { TenantState::Deleted } else { TenantState::Active };
        assert_eq!(config.state(), state);
    }
    world.stop().await;
}
