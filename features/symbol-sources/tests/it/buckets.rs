//! Buckets with the interface of S3, and their signed requests.

use crate::symbol_sources::shop::{SOURCES, Shop, read_dsym};
use serde_json::{Value, json};
use unslide_embedded::S3Endpoint;
use unslide_symbol_sources::SourceLayout;

#[tokio::test(flavor = "multi_thread")]
async fn a_dsym_in_a_bucket_is_found_by_each_layout_with_the_right_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = S3Endpoint::start(folder.path(), "builds").unwrap();
    let port = bucket.url().rsplit(':').next().unwrap().parse().unwrap();
    let shop = Shop::start(&[port]).await;
    let (dsym, debug_id) = read_dsym("app");
    let source = |layout: &str, secret: &str, bucket_name: &str| {
        json!({"name": layout, "kind": "s3", "layout": layout, "address": bucket.url(), "bucket": bucket_name, "prefix": "ios/dsyms",
               "region": "eu-central-1", "access_key": bucket.access_key, "secret_key": secret})
    };
    let test = async |layout: &str| -> Value {
        let question = json!({"debug_id": debug_id.to_string()});
        shop.post_json(&format!("{SOURCES}/{layout}/test"), &shop.key, &question).await.expect_status(200)
    };
    for layout in [SourceLayout::Unified, SourceLayout::Debuginfod, SourceLayout::Lldb] {
        let word = layout.as_str();
        shop.put(&shop.key, &source(word, &bucket.secret_key, "builds")).await.expect_status(200);
        let answer = test(word).await;
        assert_eq!(answer["outcome"], "not_found", "{answer}");
        let file = folder.path().join("s3/builds/ios/dsyms").join(layout.path_of_id(&debug_id));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &dsym).unwrap();
        let answer = test(word).await;
        assert_eq!((&answer["outcome"], &answer["size"]), (&json!("found"), &json!(dsym.len())), "{answer}");
    }
    // A wrong key fails, and says why.
    shop.put(&shop.key, &source("unified", "wrong", "builds")).await.expect_status(200);
    let answer = test("unified").await;
    assert_eq!((&answer["outcome"], &answer["status"]), (&json!("failed"), &json!(403)), "{answer}");

    shop.store_report("acme", 1, debug_id).await;
    shop.wait_for_revisions(1).await;
    let found = shop.text("SELECT source FROM symbol_source_requests WHERE state = 'found'").await;
    assert_eq!(found, "debuginfod");
    shop.stop().await;
    bucket.stop().await;
}
