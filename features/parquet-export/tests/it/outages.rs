//! Buckets that are away or refuse, and builders that die: days come late and whole.

use crate::parquet_export::bucket_server::BucketServer;
use crate::parquet_export::lake::{Lake, column_texts, read_file};
use reqwest::Method;
use serde_json::{Value, json};

fn bucket_body(server: &BucketServer) -> Value {
    json!({"address": server.url(), "bucket": "lake", "prefix": "crashes", "access_key": "A", "secret_key": "hidden-secret"})
}

/// Sets the bucket of a server as the export, from two days ago on.
async fn set_server(lake: &Lake, server: &BucketServer) {
    lake.put(&lake.key, &bucket_body(server)).await.expect_status(200);
    lake.begin_days_ago(2).await;
}

async fn wait_for_problem(lake: &Lake, words: &str) {
    let is_named =
        async || lake.read_export().await["problem"].as_str().is_some_and(|problem| problem.contains(words));
    lake.wait_for(words, is_named).await;
}

async fn write_now(lake: &Lake) {
    lake.execute("UPDATE parquet_exports SET next_write_at = now() - interval '1 minute'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_delays_days_and_says_why() {
    let server = BucketServer::start().await;
    let lake = Lake::start(&[server.port]).await;
    lake.store_reports(&[lake.report(1, "com.acme.shop", 2)]).await;
    server.refuse(Method::PUT, "", 507);
    set_server(&lake, &server).await;
    wait_for_problem(&lake, "is full").await;
    let export = lake.read_export().await;
    assert!(export["waits_until"].is_string() && export["written_at"].is_null(), "{export}");
    assert!(server.objects().is_empty());
    write_now(&lake).await;
    lake.wait_for("a second failure", async || lake.read_export().await["failures"] == json!(2)).await;
    server.refuse_nothing();
    write_now(&lake).await;
    lake.wait_until_written().await;
    let export = lake.read_export().await;
    assert!(export["problem"].is_null() && export["failures"] == 0, "{export}");
    let [file] = &server.paths(".parquet")[..] else { panic!("{:?}", server.objects().keys()) };
    assert_eq!(read_file(server.objects()[file].clone()).len(), 1);
    lake.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_fails_is_seen_and_done_later() {
    let server = BucketServer::start().await;
    let lake = Lake::start(&[server.port]).await;
    let report = lake.report(1, "com.acme.shop", 2);
    lake.store_reports(std::slice::from_ref(&report)).await;
    set_server(&lake, &server).await;
    lake.wait_until_written().await;
    server.refuse(Method::DELETE, "", 403);
    lake.delete(&format!("/v1/reports/{}", report.report_id), &lake.key).await.expect_status(204);
    wait_for_problem(&lake, "s3:DeleteObject").await;
    assert_eq!(server.paths(".parquet").len(), 1);
    // The lag counts from the time at which the file had to go.
    lake.execute(
        "UPDATE parquet_files SET delete_at = now() - interval '3 hours' WHERE delete_at IS NOT NULL",
    )
    .await;
    let lag =
        unslide_parquet_export::store::oldest_due(&lake.store, time::Duration::DAY, time::Duration::DAY);
    let late = lake.host.clock.now() - lag.await.unwrap().unwrap();
    assert!(late >= time::Duration::hours(3) && late < time::Duration::hours(4), "{late}");
    server.refuse_nothing();
    write_now(&lake).await;
    lake.wait_for("the deletion", async || server.paths(".parquet").is_empty()).await;
    lake.wait_for("the end of the problem", async || lake.read_export().await["problem"].is_null()).await;
    lake.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_whose_builder_dies_is_written_by_the_next_one() {
    let server = BucketServer::start().await;
    let mut lake = Lake::start(&[server.port]).await;
    let reports = [lake.report(1, "com.acme.shop", 2), lake.report(2, "com.acme.web", 2)];
    lake.store_reports(&reports).await;
    server.hold_manifests(true);
    set_server(&lake, &server).await;
    server.wait_until_held().await;
    lake.kill_builder().await;
    assert_eq!(server.paths(".parquet").len(), 2, "files without a manifest");
    server.hold_manifests(false);
    lake.execute("UPDATE jobs SET lease_until = now() - interval '1 second' WHERE status = 'running'").await;
    lake.start_builder();
    lake.wait_until_written().await;
    let day = lake.day_ago(2);
    let manifest = server.objects()[&format!("/lake/crashes/manifests/{day}.json")].clone();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!((&manifest["rows"], manifest["files"].as_array().unwrap().len()), (&json!(2), 2));
    for file in manifest["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap().replace('=', "%3D");
        let rows = read_file(server.objects()[&format!("/lake/crashes/{path}")].clone());
        assert_eq!(column_texts(&rows, "app"), [file["app"].as_str().unwrap()]);
    }
    // What the dead one left goes after the grace period.
    lake.execute(
        "UPDATE parquet_files SET delete_at = now() - interval '1 second' WHERE delete_at IS NOT NULL",
    )
    .await;
    lake.wait_for("the deletion", async || server.paths(".parquet").len() == 2).await;
    lake.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_under_way_ends_with_its_settings() {
    let (old, new) = (BucketServer::start().await, BucketServer::start().await);
    let lake = Lake::start(&[old.port, new.port]).await;
    lake.store_reports(&[lake.report(1, "com.acme.shop", 2)]).await;
    old.hold_manifests(true);
    set_server(&lake, &old).await;
    old.wait_until_held().await;
    set_server(&lake, &new).await;
    old.hold_manifests(false);
    lake.wait_until_written().await;
    assert_eq!(new.paths("/manifests/").len(), 2, "{:?}", new.objects().keys());
    assert_eq!(old.paths("/manifests/").len(), 1, "the old one gets nothing more");
    assert_eq!(lake.number("SELECT count(*) FROM parquet_files").await, 1);
    lake.stop().await;
}
