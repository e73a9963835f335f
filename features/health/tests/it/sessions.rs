//! Sessions: stored once, counted once, whatever comes in which order.

use crate::health::database::{APP, database, dump, event, measured, store_sessions, store_sessions_for};
use sqlx::Row;
use std::collections::BTreeMap;
use time::{Date, Duration, UtcOffset};
use unslide_harness::database::{TestDatabase, acme, arrival, start, umbrella};
use unslide_health::store::figures::{self, HealthFigures, memory_limits};
use unslide_health::store::sessions::{
    self, EndReason, SessionArrival, TerminationEvidence, read_sketch, sketch_hash,
};
use unslide_model::ended::{Confidence, EndRule, EvidenceKind};
use unslide_model::{DistinctSketch, TenantId};
use unslide_store::gateway_events::EventOutcome;
use unslide_store::queries::session::{self, SessionEvidence, SessionJudgement, TimelinePage};
use unslide_store::{expire_features, partitions};

async fn total_figures(database: &TestDatabase, of: &TenantId) -> HealthFigures {
    let mut tx = database.store.tenant(of).await.unwrap();
    let period = ((start() - Duration::days(3)).date(), (start() + Duration::DAY).date());
    figures::total_figures(&mut tx, (Some("com.acme.shop"), None), period).await.unwrap()
}

#[tokio::test]
async fn a_session_is_counted_once_and_a_later_event_completes_it() {
    use EventOutcome::{Completed, Duplicate, New};
    let database = database().await;
    let begun = event("s1", "i1", 0, None);
    let crashed = event("s1", "i1", 0, Some(EndReason::Crashed));
    assert_eq!(store_sessions(&database, &[begun.clone(), begun.clone()]).await, [New, Duplicate]);
    assert_eq!(store_sessions(&database, std::slice::from_ref(&begun)).await, [Duplicate]);
    let now = total_figures(&database, &acme()).await;
    assert_eq!((now.sessions, now.crashed_sessions, now.crash_free_sessions), (1, 0, Some(1.0)));
    // An exit that a crash report corrects at the next start, and nothing takes back.
    let exited = event("s1", "i1", 0, Some(EndReason::Exited));
    assert_eq!(store_sessions(&database, std::slice::from_ref(&exited)).await, [Completed]);
    assert_eq!(store_sessions(&database, std::slice::from_ref(&crashed)).await, [Completed]);
    let before = dump(&database).await;
    assert_eq!(store_sessions(&database, &[exited, begun, crashed]).await, [Duplicate; 3]);
    assert_eq!(dump(&database).await, before);
    let now = total_figures(&database, &acme()).await;
    assert_eq!((now.sessions, now.crashed_sessions, now.crash_free_sessions), (1, 1, Some(0.0)));
    assert_eq!((now.installations, now.crashed_installations), (1, 1));
    assert_eq!((now.users, now.crashed_users, now.crash_free_users), (1, 1, Some(0.0)));
    let row = &database
        .rows("SELECT end_reason, extract(epoch FROM ended_at - started_at)::float8 FROM sessions")
        .await[0];
    assert_eq!((row.get::<String, _>(0).as_str(), row.get::<f64, _>(1)), ("crashed", 12.5));
    let kept = "SELECT count(*) FROM sessions s WHERE s::text LIKE '%i1%' OR s::text LIKE '%robin%'";
    assert_eq!(database.number(kept).await, 0, "hashes only");
}

/// PostgreSQL reads no such offset in a text.
#[tokio::test]
async fn a_session_may_begin_in_any_offset_that_a_time_can_have() {
    let database = database().await;
    let mut begun = event("s1", "i1", 0, Some(EndReason::Exited));
    for (hours, minutes) in [(23, 59), (-23, -59)] {
        let offset = UtcOffset::from_hms(hours, minutes, 0).unwrap();
        begun.event.id = format!("s{hours}");
        begun.event.started_at = begun.event.started_at.to_offset(offset);
        assert_eq!(store_sessions(&database, std::slice::from_ref(&begun)).await, [EventOutcome::New]);
    }
    let at = start().unix_timestamp();
    let same = format!("SELECT count(*) FROM sessions WHERE extract(epoch FROM started_at)::bigint = {at}");
    assert_eq!(database.number(&same).await, 2);
}

#[tokio::test]
async fn a_session_out_of_memory_is_told_at_the_next_start_and_a_crash_corrects_it() {
    let database = database().await;
    let memory = async || {
        let now = total_figures(&database, &acme()).await;
        [now.out_of_memory_sessions, now.unexplained_sessions, now.background_out_of_memory_sessions]
    };
    let told = |id: &str, end: Option<EndReason>, foreground: bool, evidence: Option<TerminationEvidence>| {
        let mut told = event(id, "i1", 0, end);
        (told.event.foreground, told.event.termination) = (Some(foreground), evidence);
        told
    };
    let none = Some(TerminationEvidence::default());
    let critical =
        TerminationEvidence { memory_pressure: Some("critical".into()), ..TerminationEvidence::default() };
    store_sessions(
        &database,
        &[event("a", "i1", 0, None), event("b", "i1", 0, None), event("c", "i1", 0, None)],
    )
    .await;
    assert_eq!(memory().await, [0, 0, 0]);
    // It began in the foreground and ended in the background.
    store_sessions(
        &database,
        &[told("a", None, true, none.clone()), told("b", None, false, Some(critical.clone()))],
    )
    .await;
    assert_eq!(memory().await, [1, 1, 1]);
    // What the app says itself counts, unless it says nothing of use.
    store_sessions(&database, &[told("c", Some(EndReason::Exited), true, Some(critical.clone()))]).await;
    store_sessions(&database, &[told("d", Some(EndReason::Terminated), true, Some(critical))]).await;
    assert_eq!(memory().await, [2, 1, 1]);
    store_sessions(&database, &[told("e", Some(EndReason::Unknown), true, None)]).await;
    store_sessions(&database, &[told("e", None, true, none)]).await;
    assert_eq!(memory().await, [3, 2, 1]);
    store_sessions(&database, &[told("a", Some(EndReason::Crashed), true, None)]).await;
    assert_eq!(memory().await, [2, 1, 1]);
    let now = total_figures(&database, &acme()).await;
    assert_eq!((now.crashed_sessions, now.sessions), (1, 5));
    assert_eq!((now.out_of_memory_rate, now.background_out_of_memory_rate), (Some(0.4), Some(0.2)));
}

/// How a session ended, and why that is thought.
async fn judged(
    database: &TestDatabase,
    of: &TenantId,
    (app, id): (&str, &str),
) -> (EndReason, SessionJudgement) {
    let mut tx = database.store.tenant(of).await.unwrap();
    let page = TimelinePage { app, session: id, after: None, limit: 10 };
    let events = session::list_timeline(&mut tx, page).await.unwrap();
    let ended = events.into_iter().find(|event| event.kind == "ended").unwrap();
    (EndReason::parse(&ended.detail.unwrap()).unwrap(), ended.judgement.unwrap())
}

#[tokio::test]
async fn an_end_is_judged_by_the_limits_that_other_runs_said() {
    let database = database().await;
    let judged = async |id: &str| judged(&database, &acme(), (APP, id)).await;
    // Two devices are too few.
    store_sessions(&database, &[measured("a", 10, Some(2_000)), measured("b", 10, Some(2_000))]).await;
    store_sessions(&database, &[measured("early", 1_900, None)]).await;
    let (kind, early) = judged("early").await;
    assert_eq!((kind, early.confidence), (EndReason::Unexplained, Confidence::Low));
    store_sessions(&database, &[measured("c", 10, Some(2_000))]).await;
    store_sessions(&database, &[measured("near", 1_600, None), measured("far", 400, None)]).await;
    let (kind, near) = judged("near").await;
    assert_eq!(
        (kind, near.rule, near.confidence),
        (EndReason::OutOfMemory, EndRule::Exclusion, Confidence::Medium)
    );
    let learned = SessionEvidence { kind: EvidenceKind::LearnedLimit, value: "80 % of 2000 MiB".to_owned() };
    assert_eq!((near.evidence, near.against), (vec![learned], None));
    let (kind, far) = judged("far").await;
    assert_eq!((kind, far.confidence), (EndReason::Unexplained, Confidence::Low));
    assert_eq!((far.evidence.len(), far.against.unwrap().value.as_str()), (0, "20 % of 2000 MiB"));
    let now = total_figures(&database, &acme()).await;
    assert_eq!((now.out_of_memory_sessions, now.unexplained_sessions), (3, 2));
    // A run that began before is judged when its end comes. The same event again changes nothing.
    store_sessions(&database, &[event("begun", "i1", 0, None)]).await;
    store_sessions(&database, &[measured("begun", 1_900, None)]).await;
    assert_eq!(judged("begun").await.1.evidence.len(), 1);
    let before = dump(&database).await;
    assert_eq!(store_sessions(&database, &[measured("begun", 1_900, None)]).await, [EventOutcome::Duplicate]);
    assert_eq!(dump(&database).await, before);
    // A crash that is learnt of later leaves nothing of the judgement.
    store_sessions(&database, &[event("near", "i1", 0, Some(EndReason::Crashed))]).await;
    let kept = "SELECT count(*) FROM sessions WHERE session_id = 'near' AND judgement IS NOT NULL";
    assert_eq!(database.number(kept).await, 0);
}

#[tokio::test]
async fn one_device_alone_teaches_no_limit_and_a_run_says_its_own_once() {
    let database = database().await;
    let of_one = |id: &str| {
        let mut measured = measured(id, 10, Some(2_000));
        measured.event.installation = Some("i1".to_owned());
        measured
    };
    let run = unslide_store::Uuid::from_u128(0xab);
    let upper = run.to_string().to_uppercase();
    store_sessions(&database, &[of_one("a"), of_one("b"), of_one("c"), of_one(&upper)]).await;
    // A report of the last run, which came later.
    let mut report = arrival(1);
    report.facts.run_id = Some(run);
    report.facts.os_version = Some("26.1".to_owned());
    report.facts.model = Some("iPhone16,1".to_owned());
    report.facts.device = Some(vec![1; 16]);
    report.facts.summary = serde_json::json!({"memory_limit": 2_000_u64 << 20});
    database.store(&[report]).await;
    let told = async || {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let limits = memory_limits::app_limits(&mut tx, APP).await.unwrap();
        limits.iter().map(|limit| (limit.reports, limit.sessions, limit.devices)).collect::<Vec<_>>()
    };
    assert_eq!(told().await, [(1, 3, 2)]);
    store_sessions(&database, &[measured("early", 1_900, None)]).await;
    assert_eq!(judged(&database, &acme(), (APP, "early")).await.1.evidence, []);
    store_sessions(&database, &[measured("third", 10, Some(2_000))]).await;
    assert_eq!(told().await, [(1, 4, 3)]);
    store_sessions(&database, &[measured("near", 1_900, None)]).await;
    assert_eq!(judged(&database, &acme(), (APP, "near")).await.1.evidence.len(), 1);
}

/// Proves: isolation
#[tokio::test]
async fn neither_another_tenant_nor_another_app_nor_another_device_learns_a_limit() {
    let database = database().await;
    let umbrella = umbrella();
    let known = ["a", "b", "c"].map(|id| measured(id, 10, Some(2_000)));
    store_sessions(&database, &known).await;
    let (mut device, mut app) = (measured("device", 1_900, None), measured("app", 1_900, None));
    device.event.device = Some("iPhone17,1".to_owned());
    app.event.app = "com.acme.bank".to_owned();
    store_sessions(&database, &[device, app]).await;
    store_sessions_for(&database, &umbrella, &[measured("tenant", 1_900, None)]).await;
    for (of, app, id) in
        [(&acme(), APP, "device"), (&acme(), "com.acme.bank", "app"), (&umbrella, APP, "tenant")]
    {
        let (kind, judgement) = judged(&database, of, (app, id)).await;
        assert_eq!((kind, judgement.evidence.len(), judgement.against), (EndReason::Unexplained, 0, None));
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let limits = memory_limits::app_limits(&mut tx, APP).await.unwrap();
    assert_eq!((limits.len(), limits[0].reports, limits[0].sessions), (1, 0, 3));
    assert_eq!(limits[0].median, 2_000 << 20);
    assert_eq!((limits[0].model.as_str(), limits[0].os_version.as_str()), ("iPhone16,1", "26.1"));
    drop(tx);
    let mut tx = database.store.tenant(&umbrella).await.unwrap();
    assert_eq!(memory_limits::app_limits(&mut tx, APP).await.unwrap(), []);
}

/// Proves: isolation
#[tokio::test]
async fn sessions_of_two_tenants_with_one_id_are_two() {
    let database = database().await;
    let umbrella = umbrella();
    store_sessions(&database, &[event("s1", "i1", 0, None)]).await;
    assert_eq!(total_figures(&database, &umbrella).await.sessions, 0);
    store_sessions_for(&database, &umbrella, &[event("s1", "i1", 0, Some(EndReason::Crashed))]).await;
    assert_eq!(total_figures(&database, &acme()).await.crashed_sessions, 0);
    assert_eq!(total_figures(&database, &umbrella).await.crashed_sessions, 1);
}

#[tokio::test]
async fn what_is_too_old_is_not_stored_and_what_expires_stays_counted() {
    use EventOutcome::{Expired, New};
    let database = database().await;
    let first = (start() - Duration::days(40)).date();
    partitions::ensure_partitions(&database.store, first, start().date()).await.unwrap();
    let all = [event("s1", "i", 30, None), event("s2", "i", 31, None), event("s3", "i", 0, None)];
    assert_eq!(store_sessions(&database, &all).await, [New, Expired, New]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let kept = [&event("s4", "i", 5, None), &event("s5", "i", 4, None)];
    let stored = sessions::store(&mut tx, &kept, (start() - Duration::days(4)).date()).await.unwrap();
    assert_eq!(stored, [Expired, New]);
    let before = (start() - Duration::days(4)).date();
    assert_eq!(expire_features(&mut tx, before, 10).await.unwrap(), 1);
    assert_eq!(expire_features(&mut tx, before, 10).await.unwrap(), 0);
    tx.commit().await.unwrap();
    partitions::drop_before(&database.store, (start() - Duration::days(1)).date()).await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM sessions").await, 1);
    assert_eq!(database.number("SELECT sum(sessions)::bigint FROM session_days").await, 3);
}

/// Numbers that are as good as random, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn any_event(random: &mut Random) -> SessionArrival {
    let ends = [
        None,
        Some(EndReason::Exited),
        Some(EndReason::Crashed),
        Some(EndReason::OutOfMemory),
        Some(EndReason::Unexplained),
        Some(EndReason::Terminated),
        Some(EndReason::Unknown),
    ];
    let end = ends[usize::try_from(random.below(7)).unwrap()];
    let id = format!("s{}", random.below(60));
    // The same session may come with another version, installation and user: what it was counted for stays.
    let mut arrival =
        event(&id, &format!("i{}", random.below(20)), i64::try_from(random.below(3)).unwrap(), end);
    arrival.event.version = format!("1.{}", random.below(2));
    arrival.event.user = [None, Some("robin".to_owned()), Some("alex".to_owned())]
        [usize::try_from(random.below(3)).unwrap()]
    .clone();
    if random.below(8) == 0 {
        let crashed = i32::try_from(random.below(5)).unwrap();
        (arrival.event.sessions, arrival.event.crashed) = (Some(crashed + 10), Some(crashed));
        (arrival.event.installation, arrival.event.end_reason) = (None, None);
    }
    arrival.event.foreground = [None, Some(true), Some(false)][usize::try_from(random.below(3)).unwrap()];
    arrival.event.duration = arrival.event.duration.filter(|_| random.below(2) == 0);
    arrival.event.app =
        ["com.acme.shop", "com.acme.bank"][usize::try_from(random.below(2)).unwrap()].to_owned();
    arrival
}

/// Sessions, crashes, those out of memory in three ways, and the installations and the users of the first two.
type Counted = (i64, i64, [i64; 3], [DistinctSketch; 4]);

/// The counts as the rows of sessions have them.
async fn recounted(database: &TestDatabase) -> BTreeMap<(String, String, Date), Counted> {
    let mut counted: BTreeMap<_, Counted> = BTreeMap::new();
    let query = "SELECT app, version, day, installation, end_reason, coalesce(foreground, false), counted,
                        counted_crashed, user_hash FROM sessions";
    for row in database.rows(query).await {
        let entry = counted.entry((row.get(0), row.get(1), row.get(2))).or_default();
        if let Some(sessions) = row.get::<Option<i32>, _>(6) {
            entry.0 += i64::from(sessions);
            entry.1 += i64::from(row.get::<i32, _>(7));
            continue;
        }
        let installation = sketch_hash(&row.get::<Vec<u8>, _>(3));
        let user = row.get::<Option<Vec<u8>>, _>(8).map(|user| sketch_hash(&user));
        let mut add = |installations: usize, users: usize| {
            entry.3[installations].add_hash(installation);
            user.into_iter().for_each(|user| entry.3[users].add_hash(user));
        };
        entry.0 += 1;
        add(0, 2);
        let reason: Option<String> = row.get(4);
        match (reason.as_deref(), row.get::<bool, _>(5)) {
            (Some("crashed"), _) => {
                entry.1 += 1;
                add(1, 3);
            }
            (Some("out_of_memory"), true) => entry.2[0] += 1,
            (Some("unexplained"), true) => entry.2[1] += 1,
            (Some("out_of_memory" | "unexplained"), false) => entry.2[2] += 1,
            _ => {}
        }
    }
    counted
}

#[tokio::test]
async fn counts_are_those_of_the_rows_after_any_history() {
    let database = database().await;
    for seed in 0..4 {
        let mut random = Random(seed);
        for _ in 0..12 {
            let batch: Vec<_> = (0..random.below(30)).map(|_| any_event(&mut random)).collect();
            store_sessions(&database, &batch).await;
            if random.below(4) == 0 {
                // Read again from the start.
                store_sessions(&database, &batch).await;
            }
        }
        let mut stored = BTreeMap::new();
        let query =
            "SELECT app, version, day, sessions, crashed, installations, crashed_installations, users,
                            crashed_users, out_of_memory, unexplained, background_memory FROM session_days";
        for row in database.rows(query).await {
            let of = |column| read_sketch(&row.get::<Vec<u8>, _>(column)).unwrap();
            let memory = [row.get(9), row.get(10), row.get(11)];
            let counts = (row.get(3), row.get(4), memory, [5, 6, 7, 8].map(of));
            stored.insert((row.get(0), row.get(1), row.get(2)), counts);
        }
        assert_eq!(stored, recounted(&database).await, "seed {seed}");
    }
}

#[tokio::test]
async fn batches_that_share_sessions_do_not_wait_for_each_other_in_a_circle() {
    let database = database().await;
    let mut random = Random(9);
    let batches: Vec<Vec<_>> = (0..8).map(|_| (0..40).map(|_| any_event(&mut random)).collect()).collect();
    let all = batches.iter().map(|batch| store_sessions(&database, batch));
    futures_of(all).await;
    let counts = "SELECT sum(sessions)::bigint, sum(crashed)::bigint FROM session_days";
    let rows = "SELECT sum(coalesce(counted, 1))::bigint,
                       sum(coalesce(counted_crashed, (coalesce(end_reason, '') = 'crashed')::integer))::bigint FROM sessions";
    let numbers = async |query| {
        let row = &database.rows(query).await[0];
        (row.get::<i64, _>(0), row.get::<i64, _>(1))
    };
    assert_eq!(numbers(counts).await, numbers(rows).await);
}

/// Runs all of them at the same time.
async fn futures_of<F: Future>(all: impl Iterator<Item = F>) {
    let mut waiting: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_period_is_told_by_day_and_version_and_merges_installations() {
    let database = database().await;
    let of = |id: &str, installation: &str, version: &str, days, end| {
        let mut arrival = event(id, installation, days, end);
        // Robin has two installations, of which one has crashed; one session names no user.
        arrival.event.user = (id != "d").then(|| "robin".to_owned());
        arrival.event.version = version.to_owned();
        arrival
    };
    let crashed = Some(EndReason::Crashed);
    store_sessions(
        &database,
        &[
            of("a", "i1", "1.0", 1, None),
            of("b", "i1", "1.1", 0, crashed),
            of("c", "i2", "1.1", 0, None),
            of("d", "i2", "1.1", 0, None),
        ],
    )
    .await;
    let [period, before] = figures::compared_periods(start().date(), 2);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let app = Some("com.acme.shop");
    let found = figures::period_figures(&mut tx, (app, None), period).await.unwrap();
    assert_eq!((found.total.sessions, found.total.installations), (4, 2), "i1 counts once");
    assert_eq!(found.total.crash_free_installations, Some(0.5));
    assert_eq!((found.total.users, found.total.crash_free_users), (1, Some(0.0)), "d names no user");
    let days: Vec<_> = found.days.iter().map(|day| (day.day, day.figures.sessions)).collect();
    assert_eq!(days, [(start().date(), 3), (start().date().previous_day().unwrap(), 1)]);
    assert_eq!(
        figures::total_figures(&mut tx, (None, None), before).await.unwrap(),
        HealthFigures::default()
    );
    let versions = figures::most_used_versions(&mut tx, APP, None, period).await.unwrap();
    assert_eq!(versions, ["1.1", "1.0"]);
    let versions = figures::version_figures(&mut tx, "com.acme.shop", &versions, period).await.unwrap();
    let shares: Vec<_> = versions.iter().map(|v| (v.version.as_str(), v.figures.crashed_sessions)).collect();
    assert_eq!(shares, [("1.1", 1), ("1.0", 0)]);
    let only = figures::total_figures(&mut tx, (app, Some("1.0")), period).await.unwrap();
    assert_eq!((only.sessions, only.crash_free_sessions), (1, Some(1.0)));
}

/// A page of rows is 200: what lies behind it counts too.
#[tokio::test]
async fn a_period_of_many_versions_is_read_to_its_end() {
    let database = database().await;
    let many: Vec<_> = (0..450)
        .map(|n| {
            let mut arrival = event(&format!("s{n}"), &format!("i{n}"), n % 2, None);
            arrival.event.version = format!("1.{n}");
            arrival
        })
        .collect();
    store_sessions(&database, &many).await;
    let now = total_figures(&database, &acme()).await;
    assert_eq!(now.sessions, 450);
    assert!(now.installations.abs_diff(450) < 30, "{}", now.installations);
}
