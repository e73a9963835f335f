//! What is due, and results that are old.

use time::Duration;
use unslide_harness::database::{TestDatabase, acme, arrival, umbrella};
use unslide_owners::store::{
    self, DueGroup, LOOK_FAILURES_LIMIT, NewOwnersFile, OWNERS_HOOK, OwnerExplanation, OwnerLook,
    claim_groups, finish_look, list_due_tenants, make_groups_due, record_failed_look,
};
use unslide_owners_formats::{OwnerOutcome, OwnersLineProblems};

const APP: &str = "com.acme.shop";

async fn upload(database: &TestDatabase, content: &str) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let new = NewOwnersFile {
        app: APP.to_owned(),
        version: String::new(),
        dialect: "github".to_owned(),
        content: content.to_owned(),
        rules: 1,
        problems: OwnersLineProblems::default(),
    };
    store::store_file(&mut tx, &new).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

/// Makes all groups due, and claims them.
async fn claim(database: &TestDatabase) -> Vec<DueGroup> {
    loop {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let is_more = make_groups_due(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        if !is_more {
            break;
        }
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let due = claim_groups(&mut tx, 50).await.unwrap();
    tx.commit().await.unwrap();
    due
}

async fn finish(database: &TestDatabase, due: &DueGroup, app: &store::OwnersApp, owner: &str) -> bool {
    let found = OwnerLook {
        outcome: OwnerOutcome::Owned,
        owners: vec![owner.to_owned()],
        explanation: OwnerExplanation::default(),
        file: None,
        report: Some((arrival(1).report_id, 0, 1)),
        culprit: due.culprit.clone(),
    };
    finish_with(database, due, app, &found).await
}

async fn finish_with(
    database: &TestDatabase,
    due: &DueGroup,
    app: &store::OwnersApp,
    found: &OwnerLook,
) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let stored = finish_look(&mut tx, due, app, found).await.unwrap();
    tx.commit().await.unwrap();
    stored
}

async fn app(database: &TestDatabase) -> store::OwnersApp {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    store::get_app(&mut tx, APP).await.unwrap().unwrap()
}

#[tokio::test]
async fn an_old_result_does_not_replace_a_newer_one() {
    let database = TestDatabase::new(&[OWNERS_HOOK]).await;
    database.store(&[arrival(1)]).await;
    upload(&database, "* @a\n").await;
    let first = claim(&database).await;
    assert_eq!(first.len(), 1);
    assert!(claim(&database).await.is_empty(), "it is claimed");
    let old = app(&database).await;
    upload(&database, "* @b\n").await;
    assert!(!finish(&database, &first[0], &old, "@a").await, "the file has changed");
    let second = claim(&database).await;
    let new = app(&database).await;
    assert_eq!(second.len(), 1, "the change makes it due at once");
    assert!(finish(&database, &second[0], &new, "@b").await);
    assert!(!finish(&database, &first[0], &new, "@a").await, "a newer look has ended");
    assert!(claim(&database).await.is_empty());
    // A report that was revised while a look was under way leaves the group due.
    let mut revised = arrival(1);
    revised.revision = 2;
    database.store(&[revised.clone()]).await;
    let third = claim(&database).await;
    assert_eq!(third.len(), 1);
    revised.revision = 3;
    database.store(&[revised]).await;
    assert!(finish(&database, &third[0], &new, "@c").await);
    assert_eq!(claim(&database).await.len(), 1, "the later revision was not read");
    let label = "SELECT count(*) FROM group_labels WHERE label = 'owner:@c'";
    assert_eq!(database.number(label).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM group_labels").await, 1);
}

#[tokio::test]
async fn a_failed_look_pauses_and_the_lease_of_a_dead_process_ends() {
    let database = TestDatabase::new(&[OWNERS_HOOK]).await;
    upload(&database, "* @a\n").await;
    database.store(&[arrival(1), arrival(2)]).await;
    assert_eq!(list_due_tenants(&database.store, "", 5).await.unwrap(), [acme()]);
    let due = claim(&database).await;
    assert_eq!(due.len(), 2);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    record_failed_look(&mut tx, &due[0]).await.unwrap();
    tx.commit().await.unwrap();
    assert!(list_due_tenants(&database.store, "", 5).await.unwrap().is_empty());
    database.wait(Duration::seconds(31));
    let again = claim(&database).await;
    assert_eq!((again.len(), again[0].failures), (1, 1));
    assert_eq!(again[0].group, due[0].group);
    database.wait(Duration::minutes(6));
    assert_eq!(claim(&database).await.len(), 2);
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert!(claim_groups(&mut tx, 50).await.unwrap().is_empty());
    assert!(store::get_group_owner(&mut tx, due[0].group).await.unwrap().is_none());
}

#[tokio::test]
async fn groups_that_an_older_transaction_creates_are_swept_after_its_end() {
    let database = TestDatabase::new(&[OWNERS_HOOK]).await;
    let mut older = database.store.tenant(&acme()).await.unwrap();
    let effects = unslide_store::reports::Effects::Now;
    unslide_store::reports::store_arrivals(&mut older, &[arrival(1)], effects, None).await.unwrap();
    upload(&database, "* @a\n").await;
    for _ in 0..3 {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(make_groups_due(&mut tx).await.unwrap(), "it waits");
        tx.commit().await.unwrap();
    }
    older.commit().await.unwrap();
    assert_eq!(claim(&database).await.len(), 1);
}

async fn fail(database: &TestDatabase, due: &DueGroup) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let is_given_up = record_failed_look(&mut tx, due).await.unwrap();
    tx.commit().await.unwrap();
    is_given_up
}

#[tokio::test]
async fn looks_that_fail_end_until_something_changes() {
    let database = TestDatabase::new(&[OWNERS_HOOK]).await;
    upload(&database, "* @a\n").await;
    database.store(&[arrival(1)]).await;
    let begun = database.now();
    let mut looks = 0;
    while looks < 40 {
        let due = claim(&database).await;
        looks += due.len();
        if let [due] = &*due
            && fail(&database, due).await
        {
            break;
        }
        database.wait(Duration::minutes(10));
    }
    assert_eq!(looks, 13);
    assert_eq!(u32::try_from(looks), Ok(LOOK_FAILURES_LIMIT));
    assert!((15..30).contains(&(database.now() - begun).whole_hours()));
    database.wait(Duration::days(2));
    assert!(claim(&database).await.is_empty(), "it was given up");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let from = tx.now().date() - Duration::days(9);
    let shares = store::measure_shares(&mut tx, APP, from).await.unwrap();
    assert_eq!(shares.failing_groups, 1);
    drop(tx);
    let none = "SELECT count(*) FROM group_owners o JOIN group_labels l USING (tenant, group_id)
                WHERE o.outcome = 'unreadable' AND l.label = 'owner:none'";
    assert_eq!(database.number(none).await, 1);
    // The next file tries once more, and a revision of the report as often as before.
    upload(&database, "* @b\n").await;
    let due = claim(&database).await;
    assert!(due[0].needs_report, "nothing was read from it");
    assert!(fail(&database, &due[0]).await);
    let mut revised = arrival(1);
    revised.revision = 2;
    database.store(&[revised]).await;
    database.wait(Duration::hours(1));
    let due = claim(&database).await;
    assert_eq!((due.len(), due[0].failures), (1, 0));
    assert!(!fail(&database, &due[0]).await);
}

#[tokio::test]
async fn a_group_without_a_source_file_is_looked_at_again_when_a_report_comes() {
    let database = TestDatabase::new(&[OWNERS_HOOK]).await;
    upload(&database, "* @a\n").await;
    database.store(&[arrival(1), arrival(4)]).await;
    let due = claim(&database).await;
    let found = OwnerLook {
        outcome: OwnerOutcome::NoSource,
        owners: Vec::new(),
        explanation: OwnerExplanation::default(),
        file: None,
        report: Some((arrival(4).report_id, 0, 1)),
        culprit: due[0].culprit.clone(),
    };
    let app = app(&database).await;
    assert!(finish_with(&database, &due[0], &app, &found).await);
    assert!(claim(&database).await.is_empty());
    // Symbols of the other report come late: soon, but not with each of many reports.
    let mut revised = arrival(1);
    revised.revision = 2;
    database.store(&[revised, arrival(7)]).await;
    assert!(claim(&database).await.is_empty());
    database.wait(Duration::minutes(31));
    let due = claim(&database).await;
    assert_eq!((due.len(), due[0].needs_report), (1, true));
    assert!(finish_with(&database, &due[0], &app, &found).await);
    // Those of the report that was read at once.
    let mut revised = arrival(4);
    revised.revision = 2;
    database.store(&[revised]).await;
    let due = claim(&database).await;
    assert_eq!(due.len(), 1);
    assert!(finish(&database, &due[0], &app, "@a").await);
    database.store(&[arrival(10)]).await;
    database.wait(Duration::hours(1));
    assert!(claim(&database).await.is_empty(), "an owner stays as it is");
}

#[tokio::test]
async fn the_sweep_goes_on_after_the_database_was_restored_to_another_server() {
    let database = TestDatabase::new(&[OWNERS_HOOK]).await;
    database.store(&[arrival(1)]).await;
    upload(&database, "* @a\n").await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(make_groups_due(&mut tx).await.unwrap());
    tx.commit().await.unwrap();
    // The number of a server with more transactions than this one.
    database.execute("UPDATE owner_apps SET fence = '4000000000'").await;
    assert_eq!(claim(&database).await.len(), 1);
}
