//! The counts of keys and values.

use crate::own_keys::keyed_reports::{APP, group_of, with_keys};
use serde_json::{Map, Value, json};
use unslide_harness::database::{TestDatabase, acme, umbrella};
use unslide_own_keys::store::{KeyCounts, KeyScope, SAMPLED_REPORTS_LIMIT, count_keys};
use unslide_store::groups::{GroupActor, merge_groups};
use unslide_store::reports::{Effects, delete_report, store_arrivals};

const EVERYTHING: KeyScope<'static> = KeyScope { app: APP, version: None, group: None };

async fn count(database: &TestDatabase, scope: KeyScope<'_>, key: Option<&str>) -> KeyCounts {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    count_keys(&mut tx, scope, key).await.unwrap()
}

/// Returns the listed keys or values with their reports.
fn listed(counts: &KeyCounts) -> Vec<(&str, i64)> {
    counts.listed.iter().map(|one| (one.name.as_str(), one.reports)).collect()
}

#[tokio::test]
async fn keys_and_values_beyond_the_bounds_count_together() {
    let database = TestDatabase::new(&[]).await;
    let keys = |count: u32| -> Value {
        let keys: Map<String, Value> =
            (0..count).map(|n| (format!("key{n:02}"), json!(n.to_string()))).collect();
        keys.into()
    };
    database.store(&[with_keys(1, 1, keys(50)), with_keys(2, 1, keys(51))]).await;
    let counts = count(&database, EVERYTHING, None).await;
    assert_eq!((counts.sample, counts.listed.len(), counts.others, counts.other_reports), (2, 50, 1, 1));
    assert_eq!((listed(&counts)[0], listed(&counts)[49]), (("key00", 2), ("key49", 2)));
    let values: Vec<_> = (0..201).map(|n| with_keys(10 + n, 1, json!({"run": format!("{n:03}")}))).collect();
    database.store(&values).await;
    database.store(&[with_keys(300, 1, json!({"run": "199"}))]).await;
    let counts = count(&database, EVERYTHING, Some("run")).await;
    assert_eq!((counts.sample, counts.listed.len(), counts.others, counts.other_reports), (204, 200, 1, 1));
    assert_eq!((listed(&counts)[0], listed(&counts)[199]), (("199", 2), ("198", 1)));
    let counts = count(&database, EVERYTHING, None).await;
    let run = counts.listed.iter().find(|key| key.name == "run").unwrap();
    assert_eq!((run.reports, run.values, counts.others), (202, 201, 2));
}

#[tokio::test]
async fn counts_are_right_after_replays_revisions_and_deletions() {
    let database = TestDatabase::new(&[]).await;
    let first = with_keys(1, 1, json!({"plan": "pro"}));
    let other = with_keys(2, 1, json!({"plan": "pro", "beta": "true"}));
    for _ in 0..2 {
        database.store(&[first.clone(), other.clone()]).await;
    }
    assert_eq!(listed(&count(&database, EVERYTHING, None).await), [("plan", 2), ("beta", 1)]);
    let mut revised = with_keys(1, 2, json!({"plan": "free"}));
    revised.revision = 2;
    database.store(&[revised, first.clone()]).await;
    let counts = count(&database, EVERYTHING, Some("plan")).await;
    assert_eq!((counts.sample, listed(&counts)), (2, vec![("free", 1), ("pro", 1)]));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(delete_report(&mut tx, other.report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    database.store(&[other]).await;
    let counts = count(&database, EVERYTHING, None).await;
    assert_eq!((counts.sample, listed(&counts)), (1, vec![("plan", 1)]));
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert_eq!(count_keys(&mut tx, EVERYTHING, None).await.unwrap(), KeyCounts::default());
}

#[tokio::test]
async fn indexers_that_meet_a_new_key_at_once_count_each_report_once() {
    let database = TestDatabase::new(&[]).await;
    let reports: Vec<_> = (1..40).map(|n| with_keys(n, 1, json!({"new": (n % 2).to_string()}))).collect();
    let backwards: Vec<_> = reports.iter().rev().cloned().collect();
    let store = async |arrivals: &[_]| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        store_arrivals(&mut tx, arrivals, Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
    };
    tokio::join!(store(&reports), store(&backwards), store(&reports[10..]));
    let counts = count(&database, EVERYTHING, Some("new")).await;
    assert_eq!((counts.sample, listed(&counts)), (39, vec![("1", 20), ("0", 19)]));
}

#[tokio::test]
async fn a_version_and_a_group_have_counts_of_their_own() {
    let database = TestDatabase::new(&[]).await;
    let mut older = with_keys(1, 1, json!({"plan": "old"}));
    older.facts.version = "0.9".to_owned();
    let mut elsewhere = with_keys(2, 1, json!({"plan": "elsewhere"}));
    elsewhere.facts.app = "com.acme.other".to_owned();
    let of_groups =
        [1, 2, 3].map(|bug| with_keys(10 + u16::from(bug), bug, json!({"plan": bug.to_string()})));
    database.store(&[older, elsewhere]).await;
    database.store(&of_groups).await;
    let of_version = KeyScope { version: Some("0.9"), ..EVERYTHING };
    assert_eq!(listed(&count(&database, of_version, Some("plan")).await), [("old", 1)]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let actor = GroupActor { actor: "test", name: None };
    merge_groups(&mut tx, group_of(2), &[group_of(3)], None, actor).await.unwrap();
    tx.commit().await.unwrap();
    let of_group = KeyScope { group: Some(group_of(2)), ..EVERYTHING };
    let counts = count(&database, of_group, Some("plan")).await;
    assert_eq!((counts.sample, listed(&counts)), (2, vec![("2", 1), ("3", 1)]));
    let counts = count(&database, EVERYTHING, Some("plan")).await;
    assert_eq!((counts.sample, counts.listed.len()), (4, 4));
}

#[tokio::test]
async fn the_newest_reports_are_counted_and_a_crash_that_two_tell_of_once() {
    let database = TestDatabase::new(&[]).await;
    database.store(&[with_keys(1, 1, json!({"plan": "old"})), with_keys(2, 1, json!({"plan": "new"}))]).await;
    // The second report once more, as many times as are looked at, and told of by another one.
    let copies = format!(
        "INSERT INTO reports
         SELECT (jsonb_populate_record(r, jsonb_build_object('report_id', md5(n::text)::uuid,
                    'received_at', r.received_at + n * interval '1 second',
                    'same_crash_as', CASE WHEN n > {SAMPLED_REPORTS_LIMIT} THEN r.report_id END))).*
         FROM reports r, generate_series(1, {SAMPLED_REPORTS_LIMIT} + 3) n WHERE r.context -> 'keys' ->> 'plan' = 'new'"
    );
    database.execute(&copies).await;
    let counts = count(&database, EVERYTHING, Some("plan")).await;
    assert_eq!(
        (counts.sample, listed(&counts)),
        (SAMPLED_REPORTS_LIMIT, vec![("new", SAMPLED_REPORTS_LIMIT)])
    );
}
