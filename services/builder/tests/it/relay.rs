//! Relays that lose their lock, and brokers that are slow.
//! Proves: outages

use crate::builder_fixture::{BUILDER_TIMEOUT, Topic, World, acme};
use crate::late_symbols::{arrival, id, publish, requests_for};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use unslide_model::{DebugId, ReportId, TenantId};
use unslide_proto::report::Resymbolicate;
use unslide_proto::symbol::TenantConfig;
use unslide_proto::{Message, keys};
use unslide_store::outbox::{self, Relay};
use unslide_store::reports::{self, Arrival, Effects};
use unslide_store::tenants::{self, QuotaLimits, TenantStanding};
use unslide_stream::{FencedProducer, OutRecord, topic_facts};
use unslide_testkit::servers;

/// The relay's session, once it has looked into the outbox and does nothing.
const SESSION: &str =
    "SELECT coalesce(max(a.pid), 0)::bigint FROM pg_stat_activity a JOIN pg_locks l USING (pid)
     WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
       AND a.state = 'idle' AND a.query LIKE '%unslide_outbox_unsent%'";

/// An address of Kafka at which connections go nowhere before it is opened.
struct Gate {
    address: String,
    connections: Arc<AtomicU32>,
    opened: watch::Sender<bool>,
}

impl Gate {
    async fn closed() -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) =
            (listener.local_addr().unwrap().to_string(), Arc::new(AtomicU32::new(0)));
        let (opened, is_open) = watch::channel(false);
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut is_open = is_open.clone();
                tokio::spawn(async move {
                    is_open.wait_for(|open| *open).await.ok()?;
                    let mut broker = TcpStream::connect(servers::kafka()).await.ok()?;
                    copy_bidirectional(&mut client, &mut broker).await.ok()
                });
            }
        });
        Gate { address, connections, opened }
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(3 * BUILDER_TIMEOUT, reached).await.is_ok(), "never: {what}");
}

/// Ends the session of the relay that waits for Kafka.
async fn end_session(world: &World) {
    let mut session = 0;
    until("a relay waits", async || {
        session = world.number(SESSION).await;
        session > 0
    })
    .await;
    world.number(&format!("SELECT pg_terminate_backend({session}, 60000)::integer::bigint")).await;
}

/// Changes a tenant; gives the message's number.
async fn change(world: &World, tenant: &TenantId) -> i64 {
    let mut tx = world.store.tenant(tenant).await.unwrap();
    let limits = QuotaLimits::default();
    let changed =
        tenants::change_tenant(&mut tx, tenant.as_str(), TenantStanding::Suspended, &limits).await.unwrap();
    tx.commit().await.unwrap();
    changed.unwrap().1
}

/// What a topic says of tenants until a tenant's version comes.
async fn configs(topic: &mut Topic, tenant: &TenantId, version: u64) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    loop {
        let config = TenantConfig::decode(topic.next().await.value.unwrap()).unwrap();
        let is_last = config.tenant == tenant.as_str() && config.version == version;
        all.push((config.tenant, config.version));
        if is_last {
            return all;
        }
    }
}

/// Has the outbox hold a request for each of these reports, whose bodies no compression makes small.
async fn large_requests(world: &World, count: u16) {
    let debug_id = DebugId([7; 16]);
    publish(world, debug_id).await;
    let now = world.host.clock.now();
    unslide_store::partitions::ensure_partitions(&world.store, now.date(), now.date()).await.unwrap();
    let mut state = 1_u32;
    let arrivals: Vec<Arrival> = (1..=count)
        .map(|n| {
            let noise = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            });
            let noise: Vec<u8> = noise.take(50_000).collect();
            Arrival { body: unslide_proto::body::compress_report(&noise), ..arrival(now, n, debug_id, false) }
        })
        .collect();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    let asked = "SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'";
    assert_eq!(world.number(asked).await, i64::from(count));
}

/// How many requests are noted as sent.
async fn sent(world: &World) -> i64 {
    world.number("SELECT count(*) FROM outbox WHERE kind = 'resymbolicate' AND sent_at IS NOT NULL").await
}

/// How often each report is asked for, once every message is sent and nothing more comes.
async fn requests_until_quiet(world: &World, requests: &mut Topic) -> BTreeMap<ReportId, usize> {
    world.wait_for_number("SELECT count(*) FROM outbox WHERE sent_at IS NULL", 0).await;
    requests.read_to_end().await;
    let mut asked = BTreeMap::new();
    while let Some(record) = requests.next_unless_quiet().await {
        let request = Resymbolicate::decode(record.value.unwrap()).unwrap();
        *asked.entry(request.parse_report_id().unwrap().id).or_default() += 1;
    }
    asked
}

/// One more builder, which the broker knows by a name of its own.
fn builder_of(world: &mut World, client: &str) {
    world.config.kafka.client.insert("client.id".to_owned(), client.to_owned());
    world.builder();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_loses_its_lock_while_its_producer_starts_sends_nothing_that_is_old() {
    let mut world = World::start(0).await;
    let (kafka, gate) = (world.config.kafka.clone(), Gate::closed().await);
    let config = kafka.topic_names().tenant_config;
    let mut topic = world.read(&config);
    world.config.kafka.bootstrap.clone_from(&gate.address);
    world.builder();
    // The builder has a producer of its own.
    until("the relay starts its producer", async || {
        world.number(SESSION).await > 0 && gate.connections.load(Ordering::SeqCst) >= 2
    })
    .await;
    end_session(&world).await;
    let newer = change(&world, &acme()).await;
    let mut relay = Relay::acquire(&world.store).await.unwrap().expect("the lock is free");
    let producer = FencedProducer::start(&kafka, "unslide.relay").await.unwrap();
    let unsent = relay.next(10).await.unwrap();
    assert_eq!(unsent.last().unwrap().id, newer);
    let record = TenantConfig { tenant: "acme".to_owned(), version: 2, ..TenantConfig::default() };
    let record = OutRecord::for_topic(config.as_str(), record.encode_to_vec()).key(keys::for_tenant(&acme()));
    producer.send_all(&[record]).await.unwrap();
    let ids: Vec<i64> = unsent.iter().map(|unsent| unsent.id).collect();
    relay.record_sent(&ids, world.host.clock.now()).await.unwrap();
    drop(relay);
    gate.opened.send(true).unwrap();
    // It can send this only after all that it began before.
    let umbrella = TenantId::new("umbrella").unwrap();
    world.make_tenant(&umbrella).await;
    let last = change(&world, &umbrella).await;
    assert!(outbox::wait_sent(&world.store, &umbrella, last, 3 * BUILDER_TIMEOUT).await.unwrap());
    let configs = configs(&mut topic, &umbrella, 2).await;
    let of_acme: Vec<u64> = configs.iter().filter(|(tenant, _)| tenant == "acme").map(|c| c.1).collect();
    assert_eq!(of_acme, [2]);
    world.config.kafka = kafka;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_relay_takes_over_from_one_that_loses_its_session_in_the_middle_of_a_send() {
    let slow = servers::unique("relay");
    servers::set_kafka_quota(&slow, Some(1_000.0));
    let mut world = World::start(0).await;
    let topics = world.config.kafka.topic_names();
    let (mut configs_sent, mut requests) =
        (world.read(&topics.tenant_config), world.read(&topics.resymbolicate));
    large_requests(&world, 30).await;
    builder_of(&mut world, &slow);
    until("some requests are on the log, and the broker takes no more", async || {
        let facts = topic_facts(&world.kafka, &topics.resymbolicate).await.unwrap();
        facts.partitions[0].end > 0
    })
    .await;
    builder_of(&mut world, &servers::unique("relay"));
    let newer = change(&world, &acme()).await;
    end_session(&world).await;
    assert!(outbox::wait_sent(&world.store, &acme(), newer, 3 * BUILDER_TIMEOUT).await.unwrap());
    let asked = requests_until_quiet(&world, &mut requests).await;
    assert_eq!(asked.keys().copied().collect::<Vec<_>>(), (1..=30).map(id).collect::<Vec<_>>());
    // What was committed just before the session ended is sent again, and nothing more often.
    assert!(asked.values().all(|times| *times <= 2), "{asked:?}");
    let umbrella = TenantId::new("umbrella").unwrap();
    world.make_tenant(&umbrella).await;
    change(&world, &umbrella).await;
    let mut of_acme = configs(&mut configs_sent, &umbrella, 2).await;
    of_acme.retain(|(tenant, _)| tenant == "acme");
    assert_eq!(of_acme.last().unwrap().1, 2, "{of_acme:?}");
    servers::set_kafka_quota(&slow, None);
    world.stop().await;
}

/// As many requests as the broker takes in time are sent, and none holds a configuration up.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_goes_on_at_the_rate_of_a_slow_broker() {
    let slow = servers::unique("relay");
    // All of them take it minutes. What one transaction may take is less.
    servers::set_kafka_quota(&slow, Some(10_000.0));
    let mut world = World::start(0).await;
    let mut requests = world.read(&world.config.kafka.topic_names().resymbolicate);
    large_requests(&world, 36).await;
    let config = change(&world, &acme()).await;
    builder_of(&mut world, &slow);
    assert!(outbox::wait_sent(&world.store, &acme(), config, BUILDER_TIMEOUT).await.unwrap());
    let before = format!(
        "SELECT count(*) FROM outbox o JOIN outbox c ON o.sent_at < c.sent_at AND c.id = {config}
         WHERE o.kind = 'resymbolicate'"
    );
    assert_eq!(world.number(&before).await, 0, "no request is sent before the configuration");
    until("some are sent", async || sent(&world).await > 0).await;
    assert!(sent(&world).await < 36, "the quota was not felt");
    world.stop_builders().await;
    servers::set_kafka_quota(&slow, None);
    builder_of(&mut world, &servers::unique("relay"));
    let asked = requests_for(&mut requests, 36).await;
    assert_eq!(asked, (1..=36).map(|n| (id(n), 2)).collect::<Vec<_>>(), "each once");
    world.stop().await;
}
