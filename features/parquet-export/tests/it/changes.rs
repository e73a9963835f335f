//! Days that change after they were written are written again: revisions, deletions and erasures.

use crate::parquet_export::lake::{Lake, column_texts};
use serde_json::json;
use std::collections::BTreeSet;
use unslide_store::persons::hash_person;
use unslide_store::reports::Arrival;

/// Returns the next revision of a report, after its symbols came.
fn revise(report: &Arrival) -> Arrival {
    let mut next = Arrival { revision: report.revision + 1, ..report.clone() };
    next.facts.status = "complete".to_owned();
    next
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_revision_writes_its_day_again_and_replaced_files_stay_for_the_grace_period() {
    let lake = Lake::start(&[]).await;
    let reports = [lake.report(1, "com.acme.shop", 2), lake.report(2, "com.acme.shop", 1)];
    lake.store_reports(&reports).await;
    lake.set_export(2).await;
    lake.wait_until_written().await;
    let (first, other) = (lake.read_manifest(2), lake.read_manifest(1));
    assert_eq!(column_texts(&lake.read_rows(2), "status"), ["partial"]);
    lake.store_reports(&[revise(&reports[0])]).await;
    lake.wait_until_written().await;
    assert_eq!(column_texts(&lake.read_rows(2), "status"), ["complete"]);
    assert_eq!(column_texts(&lake.read_rows(2), "revision"), ["2"]);
    let second = lake.read_manifest(2);
    assert!(second.generation > first.generation);
    assert_eq!(lake.read_manifest(1), other, "the other day is as it was");
    // A reader of the first manifest still finds its files.
    let both: BTreeSet<String> =
        first.files.iter().chain(&second.files).map(|file| file.path.clone()).collect();
    assert_eq!(lake.list_files(2), both);
    lake.execute(
        "UPDATE parquet_files SET delete_at = now() - interval '1 second' WHERE delete_at IS NOT NULL",
    )
    .await;
    lake.wait_for("the deletion", async || lake.list_files(2) == lake.list_named(2)).await;
    // The same revision once more is no change.
    lake.store_reports(&[revise(&reports[0])]).await;
    lake.wait_for_turns().await;
    assert_eq!(lake.read_manifest(2), second);
    lake.stop().await;
}

/// Proves: deletion
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_report_leaves_its_day_at_once_with_the_files_that_had_it() {
    let lake = Lake::start(&[]).await;
    let reports = [lake.report(1, "com.acme.shop", 2), lake.report(2, "com.acme.shop", 2)];
    lake.store_reports(&reports).await;
    lake.set_export(2).await;
    lake.wait_until_written().await;
    let former = lake.list_files(2);
    lake.delete(&format!("/v1/reports/{}", reports[0].report_id), &lake.key).await.expect_status(204);
    lake.wait_until_written().await;
    assert_eq!(column_texts(&lake.read_rows(2), "report_id"), ["02020202-0202-0202-0202-020202020202"]);
    lake.wait_for("the deletion", async || lake.list_files(2) == lake.list_named(2)).await;
    assert!(lake.list_files(2).is_disjoint(&former));
    // The last report of a day leaves a manifest without files.
    lake.delete(&format!("/v1/reports/{}", reports[1].report_id), &lake.key).await.expect_status(204);
    lake.wait_until_written().await;
    lake.wait_for("the deletion", async || lake.list_files(2).is_empty()).await;
    assert_eq!(lake.read_manifest(2).rows, 0);
    lake.stop().await;
}

/// Proves: deletion
#[tokio::test(flavor = "multi_thread")]
async fn the_erasure_of_a_person_changes_each_of_their_days() {
    let lake = Lake::start(&[]).await;
    let of_robin = |number: u8, days_ago: i64| {
        let mut report = lake.report(number, "com.acme.shop", days_ago);
        report.facts.users = vec![hash_person("robin")];
        report
    };
    let reports = [of_robin(1, 3), of_robin(2, 1), lake.report(3, "com.acme.shop", 1)];
    lake.store_reports(&reports).await;
    lake.set_export(3).await;
    lake.wait_until_written().await;
    assert_eq!((lake.read_rows(3).len(), lake.read_rows(1).len()), (1, 2));
    let body = json!({"kind": "user", "id": "robin"});
    lake.post_json("/v1/person-erasures", &lake.key, &body).await.expect_status(202);
    let erased = async || {
        lake.number("SELECT count(*) FROM reports").await == 1
            && lake.read_manifest(3).rows == 0
            && lake.read_manifest(1).rows == 1
    };
    lake.wait_for("the erasure", erased).await;
    lake.wait_for("the deletion", async || {
        lake.list_files(3).is_empty() && lake.list_files(1) == lake.list_named(1)
    })
    .await;
    assert_eq!(column_texts(&lake.read_rows(1), "report_id"), ["03030303-0303-0303-0303-030303030303"]);
    lake.stop().await;
}
