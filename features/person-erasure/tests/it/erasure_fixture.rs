//! A database with data of two persons, and the searches that a builder would run.

use time::Duration;
use unslide_harness::database::{TestDatabase, acme, arrival, start};
use unslide_health::store::HEALTH_HOOK;
use unslide_health::store::metrics::{self, MetricArrival};
use unslide_health::store::sessions::{self, SessionArrival, SessionEvent};
use unslide_model::TenantId;
use unslide_person_erasure::search::PersonSearch;
use unslide_person_erasure::store::{self, NewPersonErasure, PersonErasure};
use unslide_proto::event::GatewayEvent;
use unslide_store::Uuid;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::persons::{PersonKind, hash_person};
use unslide_store::reports::Arrival;

/// A session of Robin.
pub const RUN: &str = "0198c0de-0000-7000-8000-0000000000aa";
/// A session of somebody else.
pub const OTHER_RUN: &str = "0198c0de-0000-7000-8000-0000000000bb";

/// A database with the hooks of the features that have data of persons.
pub async fn database() -> TestDatabase {
    TestDatabase::new(&[HEALTH_HOOK, unslide_captures::store::CAPTURE_HOOK]).await
}

/// An event of a session.
pub fn session(id: &str, installation: &str, user: &str) -> SessionArrival {
    let json = serde_json::json!({"id": id, "installation": installation, "user": user, "app": "com.acme.shop",
        "version": "1.0", "started_at": "2026-11-20T07:00:00Z", "flags": {"greeting": format!("hello {user}")}});
    let event = SessionEvent::from_json(json.to_string().as_bytes()).unwrap();
    SessionArrival { event, received_at: start(), sender_key: None }
}

/// A metric payload of a session.
pub fn payload(id: &str, run: &str) -> MetricArrival {
    let json = serde_json::json!({"id": id, "app": "com.acme.shop", "version": "1.0", "session": run,
        "measured_at": "2026-11-20T07:30:00Z", "measurements": [{"name": "launch_time", "unit": "ms", "value": 800}]});
    MetricArrival {
        event: GatewayEvent::from_json(json.to_string().as_bytes()).unwrap(),
        received_at: start(),
        sender_key: None,
    }
}

/// Reports: of Robin's run, of Robin's device, one that names Robin, and one of somebody else.
pub fn arrivals() -> Vec<Arrival> {
    let mut reports: Vec<Arrival> = (1..=4).map(arrival).collect();
    reports[0].facts.run_id = RUN.parse().ok();
    reports[1].facts.device = Some(hash_person("robin's phone").to_vec());
    reports[2].facts.users = vec![hash_person("robin")];
    reports[3].facts.run_id = OTHER_RUN.parse().ok();
    reports[3].facts.device = Some(hash_person("another phone").to_vec());
    reports[3].facts.users = vec![hash_person("kim")];
    reports
}

/// Stores session events, and returns their outcomes.
pub async fn store_sessions(database: &TestDatabase, arrivals: &[SessionArrival]) -> Vec<EventOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let arrivals: Vec<&SessionArrival> = arrivals.iter().collect();
    let keep_from = (start() - Duration::days(90)).date();
    let outcomes = sessions::store(&mut tx, &arrivals, keep_from).await.unwrap();
    tx.commit().await.unwrap();
    outcomes
}

/// Stores metric payloads, and returns their outcomes.
pub async fn store_payloads(database: &TestDatabase, arrivals: &[MetricArrival]) -> Vec<EventOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let arrivals: Vec<&MetricArrival> = arrivals.iter().collect();
    let keep_from = (start() - Duration::days(90)).date();
    let outcomes = metrics::store(&mut tx, &arrivals, keep_from).await.unwrap();
    tx.commit().await.unwrap();
    outcomes
}

/// Fills the database with data of Robin and of somebody else, an hour before the time of the test.
pub async fn fill(database: &TestDatabase) {
    database.store(&arrivals()).await;
    let events = [session(RUN, "robin's phone", "robin"), session(OTHER_RUN, "another phone", "kim")];
    store_sessions(database, &events).await;
    store_payloads(database, &[payload("m1", RUN), payload("m2", OTHER_RUN)]).await;
    for (content, run) in [("a", RUN.to_uppercase()), ("b", OTHER_RUN.to_owned())] {
        let capture = format!(
            "INSERT INTO captures (id, tenant, app, version, session_id, kind, form, files, size, content_hash, state, received_at)
             VALUES (gen_random_uuid(), 'acme', 'com.acme.shop', '1.0', '{run}', 'profile', '{{\"kind\": \"profile\"}}',
                     '[{{\"name\": \"profile\", \"size\": 7}}]', 7, sha256('{content}'), 'ready', '2026-11-20T08:00:00Z')"
        );
        database.execute(&capture).await;
    }
    database.wait(Duration::HOUR);
}

/// Requests an erasure.
pub async fn request(database: &TestDatabase, kind: PersonKind, id: &str) -> PersonErasure {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let new = NewPersonErasure { kind, id: id.to_owned(), dry_run: false };
    let erasure = store::begin_erasure(&mut tx, &new, "test").await.unwrap().unwrap();
    tx.commit().await.unwrap();
    erasure
}

/// Runs both searches of an erasure, and returns it as it is then.
pub async fn finish(database: &TestDatabase, id: Uuid) -> PersonErasure {
    let tenant: TenantId = acme();
    loop {
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        let open = store::find_open(&mut tx, id).await.unwrap();
        let ended = store::get_erasure(&mut tx, id).await.unwrap().unwrap();
        tx.rollback().await.unwrap();
        let Some(erasure) = open else { return ended };
        let mut search = PersonSearch::for_erasure(&database.store, &tenant, &erasure);
        assert_eq!(search.erase_some().await.unwrap(), None);
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        unslide_person_erasure::end_search(&mut tx, &erasure).await.unwrap();
        tx.commit().await.unwrap();
    }
}
