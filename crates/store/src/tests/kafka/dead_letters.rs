//! The index of dead letters: their tenants, who sees them, what a replay leaves behind.

use crate::dead_letters::DeadLetterReach::{All, Own};
use crate::dead_letters::{
    DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterStage, DeadLetterStatus,
    ReplayResult, TopicOffset, count_dead_letters, get, list_dead_letters, note, oldest_by_stage,
    purge_dead_letters, record_replay, record_replay_result, requested_replays, store_failures,
};
use crate::tenants::{self, QuotaLimits, TenantStanding};
use crate::tests::database::{Database, acme, execute, start, tenant_id};
use sqlx::Row;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;

pub fn id(offset: i64) -> DeadLetterId {
    DeadLetterId { topic_id: "0a".repeat(16), partition: 1, offset }
}

pub fn letter(offset: i64, tenant: Option<&str>) -> DeadLetter {
    DeadLetter {
        id: id(offset),
        stage: DeadLetterStage::Symbolize,
        topic: "unslide.dead-letter".to_owned(),
        tenant: tenant.map(tenant_id),
        arrived_at: start() + Duration::seconds(offset / 3),
        reason: if offset % 2 == 0 { "not_json" } else { "kills_worker" }.to_owned(),
        detail: "at 7".to_owned(),
        attempt: (offset == 1).then_some(6),
        origin: Some(TopicOffset { topic: "crash.reports".to_owned(), partition: 0, offset }),
        source: None,
        source_index: (offset == 2).then_some(3),
        source_count: (offset == 2).then_some(4),
        value_bytes: (offset != 3).then_some(10),
        status: DeadLetterStatus::Waiting,
        replays: 0,
        replayed_at: None,
        replayed_by: None,
        replayed_as: None,
        replay_detail: None,
    }
}

/// A record that the indexer could not store.
pub fn skipped(offset: i64, tenant: Option<&str>, reason: &str) -> DeadLetter {
    DeadLetter {
        id: DeadLetterId { topic_id: "0b".repeat(16), ..id(offset) },
        stage: DeadLetterStage::Store,
        topic: "crash.symbolicated".to_owned(),
        reason: reason.to_owned(),
        ..letter(offset, tenant)
    }
}

async fn oldest(database: &Database, stage: DeadLetterStage) -> Option<OffsetDateTime> {
    let oldest = oldest_by_stage(&database.store).await.unwrap();
    assert_eq!(oldest.len(), DeadLetterStage::ALL.len());
    oldest.into_iter().find(|(of, _)| *of == stage).unwrap().1
}

async fn noted(database: &Database, letters: &[DeadLetter]) -> u64 {
    let mut tx = database.store.batch().await.unwrap();
    let noted = note(&mut tx, letters).await.unwrap();
    tx.commit().await.unwrap();
    noted.new
}

async fn offsets_of(database: &Database, tenant: &TenantId, filter: &DeadLetterFilter) -> Vec<i64> {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let letters = list_dead_letters(&mut tx, Own, filter, None, 100).await.unwrap();
    assert_eq!(count_dead_letters(&mut tx, Own, filter).await.unwrap(), letters.len() as u64);
    letters.iter().map(|l| l.id.offset).collect()
}

async fn offsets_of_all(database: &Database, filter: &DeadLetterFilter, tenant: Option<&str>) -> Vec<i64> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let letters = list_dead_letters(&mut tx, All { tenant }, filter, None, 100).await.unwrap();
    assert_eq!(count_dead_letters(&mut tx, All { tenant }, filter).await.unwrap(), letters.len() as u64);
    letters.iter().map(|l| l.id.offset).collect()
}

/// Proves: isolation
#[tokio::test]
async fn a_letter_is_its_tenants_or_nobodys_and_is_noted_once() {
    let database = Database::new().await;
    let mut gone = database.store.tenant(&tenant_id("gone")).await.unwrap();
    tenants::create_tenant(&mut gone, "gone", &QuotaLimits::default()).await.unwrap().unwrap();
    tenants::change_tenant(&mut gone, "gone", TenantStanding::Deleted, &QuotaLimits::default())
        .await
        .unwrap()
        .unwrap();
    gone.commit().await.unwrap();
    let letters = [
        letter(0, Some("acme")),
        letter(1, Some("umbrella")),
        letter(2, Some("acme")),
        letter(3, None),
        // Whoever is called so later must not see what came before.
        letter(4, Some("stranger")),
        letter(5, Some("gone")),
    ];
    assert_eq!(noted(&database, &letters).await, 5);
    assert_eq!(noted(&database, &letters).await, 0);
    let everything = DeadLetterFilter::default();
    assert_eq!(offsets_of(&database, &acme(), &everything).await, [2, 0]);
    assert_eq!(offsets_of(&database, &tenant_id("umbrella"), &everything).await, [1]);
    assert_eq!(offsets_of(&database, &tenant_id("stranger"), &everything).await, Vec::<i64>::new());
    assert_eq!(offsets_of_all(&database, &everything, None).await, [4, 3, 2, 1, 0]);
    assert_eq!(offsets_of_all(&database, &everything, Some("")).await, [4, 3]);
    assert_eq!(offsets_of_all(&database, &everything, Some("umbrella")).await, [1]);
    // What was found comes back as it was.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for offset in [0, 2] {
        let found = get(&mut tx, Own, &id(offset)).await.unwrap().unwrap();
        assert_eq!(found, letter(offset, Some("acme")));
    }
    for hidden in [1, 3, 4, 9] {
        assert!(get(&mut tx, Own, &id(hidden)).await.unwrap().is_none());
    }
    let nobodys = get(&mut tx, All { tenant: None }, &id(3)).await.unwrap().unwrap();
    assert_eq!(nobodys, letter(3, None));
}

#[tokio::test]
async fn letters_are_listed_by_filter_and_in_pages() {
    let database = Database::new().await;
    let letters: Vec<DeadLetter> = (0..20).map(|n| letter(n, Some("acme"))).collect();
    noted(&database, &letters).await;
    let reason = DeadLetterFilter { reason: Some("not_json".to_owned()), ..DeadLetterFilter::default() };
    let time = DeadLetterFilter {
        from: Some(start() + Duration::SECOND),
        to: Some(start() + Duration::seconds(2)),
        ..DeadLetterFilter::default()
    };
    assert_eq!(offsets_of(&database, &acme(), &time).await, [5, 4, 3]);
    assert_eq!(offsets_of_all(&database, &time, None).await, [5, 4, 3]);
    assert_eq!(offsets_of_all(&database, &reason, None).await.len(), 10);
    for reach in [Own, All { tenant: None }] {
        let (mut seen, mut after): (Vec<i64>, Option<DeadLetterCursor>) = (Vec::new(), None);
        loop {
            let mut tx = database.store.tenant(&acme()).await.unwrap();
            let page = list_dead_letters(&mut tx, reach, &reason, after.as_ref(), 3).await.unwrap();
            let Some(last) = page.last() else { break };
            after = DeadLetterCursor::from_text(&DeadLetterCursor::after_dead_letter(last).to_text());
            assert!(after.is_some());
            seen.extend(page.iter().map(|l| l.id.offset));
        }
        assert_eq!(seen, (0..20).rev().filter(|n| n % 2 == 0).collect::<Vec<i64>>());
    }
    for wrong in ["", "1", "x/y", "1/0a-1-1", &format!("1/{}", id(1)).replace("0a", "0A")] {
        assert_eq!(DeadLetterCursor::from_text(wrong), None, "{wrong}");
    }
    assert!(
        "0a-1-2".parse::<DeadLetterId>().is_err()
            && format!("{}-01-2", "0a".repeat(16)).parse::<DeadLetterId>().is_err()
    );
}

#[tokio::test]
async fn a_replay_is_noted_and_changes_no_other_tenants_letter() {
    let database = Database::new().await;
    noted(&database, &[letter(0, Some("acme")), letter(1, Some("umbrella")), letter(2, None)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    record_replay(&mut tx, Own, &id(0), "key", Some("crash.reports/0/7")).await.unwrap();
    record_replay(&mut tx, Own, &id(0), "key", Some("crash.reports/0/8")).await.unwrap();
    record_replay(&mut tx, All { tenant: None }, &id(2), "key", Some("crash.reports/0/9")).await.unwrap();
    for (offset, reach) in [(1, Own), (2, Own), (7, All { tenant: None })] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let done = record_replay(&mut tx, reach, &id(offset), "key", Some("x")).await;
        assert!(done.is_err(), "{offset}");
    }
    let own = get(&mut tx, Own, &id(0)).await.unwrap().unwrap();
    let replayed = (own.replays, own.replayed_at, own.replayed_as.as_deref());
    assert_eq!(replayed, (2, Some(start()), Some("crash.reports/0/8")));
    tx.commit().await.unwrap();
    let not_yet = DeadLetterFilter { status: Some(DeadLetterStatus::Waiting), ..DeadLetterFilter::default() };
    assert_eq!(offsets_of_all(&database, &not_yet, None).await, [1]);
    assert_eq!(offsets_of(&database, &acme(), &not_yet).await, Vec::<i64>::new());
    assert_eq!(oldest(&database, DeadLetterStage::Symbolize).await, Some(start()));
    assert_eq!(purge_dead_letters(&database.store, start() + Duration::MINUTE).await.unwrap(), 3);
    assert_eq!(oldest(&database, DeadLetterStage::Symbolize).await, None);
}

#[tokio::test]
async fn a_requested_replay_waits_for_the_indexer_and_ends_once() {
    let database = Database::new().await;
    let letters = [skipped(0, Some("acme"), "panicked"), skipped(3, None, "panicked"), letter(1, None)];
    noted(&database, &letters).await;
    assert_eq!(requested_replays(&database.store, 10).await.unwrap(), []);
    let ask = async |reach, letter: &DeadLetter| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        record_replay(&mut tx, reach, &letter.id, "key", None).await.unwrap();
        tx.commit().await.unwrap();
    };
    let end = async |letter: &DeadLetter, result: ReplayResult| {
        let mut tx = database.store.batch().await.unwrap();
        let found = record_replay_result(&mut tx, &letter.id, &result).await.unwrap();
        tx.commit().await.unwrap();
        found
    };
    ask(Own, &letters[0]).await;
    ask(All { tenant: None }, &letters[1]).await;
    let due = requested_replays(&database.store, 10).await.unwrap();
    assert_eq!(due.len(), 2);
    assert!(due.iter().all(|due| (due.replays, due.status) == (1, DeadLetterStatus::Requested)));
    assert!(end(&letters[0], ReplayResult::Failed("at \0 7".to_owned())).await);
    assert!(!end(&letters[0], ReplayResult::Stored).await, "it has ended");
    assert!(end(&letters[1], ReplayResult::Stored).await);
    assert_eq!(requested_replays(&database.store, 10).await.unwrap(), []);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let own = get(&mut tx, Own, &letters[0].id).await.unwrap().unwrap();
    assert_eq!((own.status, own.replay_detail.as_deref()), (DeadLetterStatus::Failed, Some("at  7")));
    // The failed one still waits for somebody.
    assert_eq!(oldest(&database, DeadLetterStage::Store).await, Some(start()));
    assert_eq!(oldest(&database, DeadLetterStage::Read).await, None);
    let stage = DeadLetterFilter { stage: Some(DeadLetterStage::Store), ..DeadLetterFilter::default() };
    assert_eq!(offsets_of(&database, &acme(), &stage).await, [0]);
    assert_eq!(offsets_of_all(&database, &stage, None).await, [3, 0]);
}

#[tokio::test]
async fn only_records_that_could_not_be_stored_count_for_the_limit() {
    let database = Database::new().await;
    let read = DeadLetter { stage: DeadLetterStage::Read, ..skipped(9, Some("acme"), "panicked") };
    let letters = [
        skipped(0, Some("acme"), "panicked"),
        skipped(3, Some("umbrella"), "panicked"),
        skipped(6, Some("acme"), "constraint_violation"),
        letter(1, Some("acme")),
        read,
    ];
    noted(&database, &letters).await;
    let failures = async |since, reason| store_failures(&database.store, since, reason).await.unwrap();
    let all = failures(start(), "panicked").await;
    assert_eq!((all.recent, all.tenants), (3, vec!["acme".to_owned(), "umbrella".to_owned()]));
    let late = failures(start() + Duration::SECOND, "panicked").await;
    assert_eq!((late.recent, late.tenants), (2, vec!["umbrella".to_owned()]));
}

/// By the plan of the statement that [`list_dead_letters`] has just used, made without knowing its arguments.
#[tokio::test]
async fn a_page_of_a_list_begins_where_the_index_says() {
    let database = Database::new().await;
    // Few of many: the index that begins with the tenant is the better one.
    let of = |n| letter(n, Some(if n % 50 == 0 { "acme" } else { "umbrella" }));
    noted(&database, &(0..2_000).map(of).collect::<Vec<DeadLetter>>()).await;
    execute(&database, "ANALYZE dead_letters").await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    list_dead_letters(&mut tx, Own, &DeadLetterFilter::default(), None, 10).await.unwrap();
    let (connection, ..) = tx.parts();
    // With little data only the dearer ways are switched off.
    for set in ["enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off"] {
        let set = format!("SET LOCAL {set}; SET LOCAL plan_cache_mode = force_generic_plan");
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut *connection).await.unwrap();
    }
    let find = "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%FROM dead_letters%LIMIT $10'";
    let name: String = sqlx::query_scalar(find).fetch_one(&mut *connection).await.unwrap();
    let explain = format!(
        "EXPLAIN (COSTS off) EXECUTE {name}('acme', NULL, NULL, NULL, NULL, now(), 'a', 1, 1, 50, NULL)"
    );
    let plan = sqlx::raw_sql(sqlx::AssertSqlSafe(explain)).fetch_all(connection).await.unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(!plan.contains("Sort") && plan.contains("dead_letters_newest"), "{plan}");
    let condition = plan.lines().find(|line| line.contains("Index Cond")).expect("an index condition");
    assert!(condition.contains("tenant = $1") && condition.contains("arrived_at <= $6"), "{plan}");
}
