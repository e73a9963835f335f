//! The configuration of tenants that workers read.
//! Proves: outages

use crate::world::{PATIENCE, World, acme};
use unslide_proto::Message;
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_store::tenants::{self, QuotaLimits, TenantStanding};
use unslide_store::{erasure, keys, outbox};

/// A tenant's changes reach the topic in their order, deletion as a record, and nothing in it is secret or
/// personal.
#[tokio::test(flavor = "multi_thread")]
async fn versions_come_in_order_and_carry_no_secrets() {
    let world = World::start(2).await;
    let mut topic = world.read(&world.config.kafka.topic_names().tenant_config);
    let key = keys::NewApiKey {
        name: "the pipeline of Ada Lovelace".into(),
        scopes: vec![unslide_model::Scope::TenantAdmin],
        app: None,
        expires_at: None,
    };
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let (key, text) = keys::create_key(&mut tx, &key, &[7; 30]).await.unwrap();
    tx.commit().await.unwrap();
    // All at once: the row's lock gives them their order.
    let changes = (1..=8_u32).map(|n| {
        let store = world.store.clone();
        async move {
            let mut tx = store.tenant(&acme()).await.unwrap();
            let limits = QuotaLimits { units_per_second: n, ..QuotaLimits::default() };
            let changed =
                tenants::change_tenant(&mut tx, "Acme of Ada Lovelace", TenantStanding::Active, &limits)
                    .await
                    .unwrap();
            tx.commit().await.unwrap();
            changed.unwrap().1
        }
    });
    let sent = futures::future::join_all(changes).await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let (_, deletion) = erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert!(outbox::wait_sent(&world.store, &acme(), deletion.unwrap(), PATIENCE).await.unwrap());
    for id in sent {
        assert!(outbox::wait_sent(&world.store, &acme(), id, PATIENCE).await.unwrap(), "none is overtaken");
    }
    let secret = text.reveal().rsplit_once('_').unwrap().1.to_owned();
    let mut last = 0;
    while last < 10 {
        let record = topic.next().await;
        let value = record.value.clone().expect("a record and no tombstone");
        let whole = format!("{record:?} {}", String::from_utf8_lossy(&value));
        for hidden in [secret.as_str(), &key.prefix, &key.id.to_string(), "Ada", "Lovelace"] {
            assert!(!whole.contains(hidden), "{hidden} is in a record behind version {last}");
        }
        let config = TenantConfig::decode(value).unwrap();
        // Each is the tenant as it was when it was sent, so that a version may be left out or come again.
        assert!(config.tenant == "acme" && config.version >= last, "{config:?} behind version {last}");
        last = config.version;
        let state = if last == 10 { TenantState::Deleted } else { TenantState::Active };
        assert_eq!(config.state(), state);
    }
    world.stop().await;
}

/// A relay that was killed between the broker's answer and its note has sent a version that another one sends
/// again. What it sends is the tenant as it is now.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_sent_again_says_nothing_older_than_what_was_sent() {
    let mut world = World::start(1).await;
    let mut topic = world.read(&world.config.kafka.topic_names().tenant_config);
    let mut changed = Vec::new();
    for n in 1..=3 {
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        let limits = QuotaLimits { units_per_second: n, ..QuotaLimits::default() };
        changed.push(
            tenants::change_tenant(&mut tx, "acme", TenantStanding::Active, &limits)
                .await
                .unwrap()
                .unwrap()
                .1,
        );
        tx.commit().await.unwrap();
    }
    assert!(outbox::wait_sent(&world.store, &acme(), changed[2], PATIENCE).await.unwrap());
    world.stop_builders().await;
    while TenantConfig::decode(topic.next().await.value.unwrap()).unwrap().version < 4 {}
    let mut sql = world.connect().await;
    sqlx::query("UPDATE outbox SET sent_at = NULL WHERE id = $1")
        .bind(changed[0])
        .execute(&mut sql)
        .await
        .unwrap();
    sqlx::Connection::close(sql).await.unwrap();
    world.builder();
    assert!(outbox::wait_sent(&world.store, &acme(), changed[0], PATIENCE).await.unwrap());
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    tenants::change_tenant(&mut tx, "acme", TenantStanding::Suspended, &QuotaLimits::default())
        .await
        .unwrap()
        .unwrap();
    tx.commit().await.unwrap();
    loop {
        match TenantConfig::decode(topic.next().await.value.unwrap()).unwrap().version {
            5 => break,
            version => assert_eq!(version, 4, "the message of version 2 was sent again"),
        }
    }
    world.stop().await;
}

/// One message that cannot be read holds up no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_not_be_read_is_set_aside_and_counted() {
    let mut world = World::start(0).await;
    let mut sql = world.connect().await;
    let unreadable = "UPDATE outbox SET message = '{}'";
    sqlx::raw_sql(unreadable).execute(&mut sql).await.unwrap();
    sqlx::Connection::close(sql).await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let (_, id) = tenants::change_tenant(&mut tx, "acme", TenantStanding::Suspended, &QuotaLimits::default())
        .await
        .unwrap()
        .unwrap();
    tx.commit().await.unwrap();
    world.builder();
    assert!(outbox::wait_sent(&world.store, &acme(), id, PATIENCE).await.unwrap());
    world.until_gauge("unslide_builder_set_aside_messages", 1).await;
    world.stop().await;
}
