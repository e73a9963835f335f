//! The words of testers: found by report and group, and gone with the report.

use sqlx::Row;
use time::Duration;
use unslide_harness::database::{TestDatabase, acme, arrival, umbrella};
use unslide_model::ReportId;
use unslide_store::GroupId;
use unslide_store::reports::delete_report;
use unslide_testflight::store::{self, TESTFLIGHT_HOOK, WaitingSubmission};

fn waiting(database: &TestDatabase, id: &str, comment: Option<&str>) -> WaitingSubmission {
    WaitingSubmission {
        submission: id.to_owned(),
        app: "com.acme.shop".to_owned(),
        comment: comment.map(str::to_owned),
        submitted_at: Some(database.now()),
        seen_at: database.now(),
        tries: 0,
    }
}

async fn record(database: &TestDatabase, id: &str, report: ReportId, comment: Option<&str>) {
    let add = format!(
        "INSERT INTO testflight_submissions (tenant, submission, app, state, seen_at, next_try_at, comment)
         VALUES ('acme', '{id}', 'com.acme.shop', 'waiting', now(), now(), 'x')"
    );
    database.execute(&add).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    store::record_sent(&mut tx, &waiting(database, id, comment), report).await.unwrap();
    tx.commit().await.unwrap();
}

/// Proves: deletion
#[tokio::test]
async fn words_are_found_by_report_and_group_and_go_with_the_report() {
    let database = TestDatabase::new(&[TESTFLIGHT_HOOK]).await;
    database.store(&[arrival(1), arrival(4), arrival(2)]).await;
    for (id, n, comment) in [("a", 1, Some("In the cart.")), ("b", 4, Some("At start.")), ("c", 2, None)] {
        record(&database, id, arrival(n).report_id, comment).await;
    }
    let group = "SELECT group_id FROM reports WHERE report_id = '01010101-0101-0101-0101-010101010101'";
    let group: GroupId = database.rows(group).await[0].get(0);
    let words = async || {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let mut found = store::list_for_group(&mut tx, group, 10).await.unwrap();
        found.sort_by(|a, b| a.comment.cmp(&b.comment));
        found.into_iter().map(|one| one.comment).collect::<Vec<_>>()
    };
    assert_eq!(words().await, ["At start.", "In the cart."], "arrivals 1 and 4 are one bug");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let of_report = store::list_for_report(&mut tx, arrival(1).report_id, 5).await.unwrap();
    assert_eq!(
        (of_report[0].submission.as_str(), of_report[0].comment.as_deref()),
        ("a", Some("In the cart."))
    );
    let without = store::list_for_report(&mut tx, arrival(2).report_id, 5).await.unwrap();
    assert_eq!((without[0].submission.as_str(), &without[0].comment), ("c", &None));
    tx.rollback().await.unwrap();
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert!(store::list_for_group(&mut tx, group, 10).await.unwrap().is_empty());
    tx.rollback().await.unwrap();

    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(delete_report(&mut tx, arrival(1).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(words().await, ["At start."]);
    assert_eq!(database.number("SELECT count(*) FROM testflight_comments").await, 1);
    // Apple still lists it: neither the report nor the words come back.
    record(&database, "d", arrival(1).report_id, Some("In the cart.")).await;
    assert_eq!(database.number("SELECT count(*) FROM testflight_comments").await, 1);
}

#[tokio::test]
async fn words_whose_report_is_never_stored_are_deleted() {
    let database = TestDatabase::new(&[TESTFLIGHT_HOOK]).await;
    database.store(&[arrival(1)]).await;
    record(&database, "a", arrival(1).report_id, Some("Stored.")).await;
    record(&database, "b", arrival(9).report_id, Some("Never stored.")).await;
    let sweep = async || {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let deleted = store::delete_orphans(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        deleted
    };
    assert_eq!(sweep().await, 0);
    database.wait(Duration::days(8));
    assert_eq!(sweep().await, 1);
    assert_eq!(
        database.number("SELECT count(*) FROM testflight_comments WHERE comment = 'Stored.'").await,
        1
    );
}
