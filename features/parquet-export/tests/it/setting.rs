//! Who sets exports, and that their credentials stay in.

use crate::parquet_export::lake::{EXPORT, Lake};
use serde_json::{Value, json};
use unslide_model::Scope;

fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[name] = value;
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_set_tested_moved_and_removed_and_its_credentials_stay_in() {
    let lake = Lake::start(&[]).await;
    let test = async || lake.post_json(&format!("{EXPORT}/test"), &lake.key, &json!({})).await;
    assert_eq!(test().await.expect_status(200)["ok"], false);
    assert_eq!(lake.get(EXPORT, &lake.key).await.expect_status(200), json!({}));
    let body = lake.bucket_body();
    let set = lake.put(&lake.key, &body).await.expect_status(200);
    assert!(set["address"].as_str().unwrap().ends_with("/lake/crashes"), "{set}");
    let today = json!(lake.day_ago(0).to_string());
    assert_eq!((&set["first_day"], &set["next_day"], &set["changed_days"]), (&today, &today, &json!(0)));
    let tested = test().await.expect_status(200);
    assert_eq!(tested["ok"], true, "{tested}");
    assert!(!lake.prefix_folder().join("unslide-test").exists());

    // The secret stays for the same bucket and key, and is sent to no other one.
    let without = with(&body, "secret_key", Value::Null);
    lake.begin_days_ago(5).await;
    let again = lake.put(&lake.key, &without).await.expect_status(200);
    assert_eq!(again["first_day"], lake.day_ago(5).to_string(), "it goes on");
    let detail = lake
        .put(&lake.key, &with(&without, "bucket", json!("other")))
        .await
        .expect_problem(400, "invalid-body");
    assert!(detail.contains("secret_key"), "{detail}");
    // Another prefix begins again, and all kept days are written on request.
    let moved = lake.put(&lake.key, &with(&without, "prefix", json!("other"))).await.expect_status(200);
    assert_eq!(moved["first_day"], today);
    let all = with(&with(&without, "prefix", json!("other")), "from_start", json!(true));
    let all = lake.put(&lake.key, &all).await.expect_status(200);
    assert_eq!(all["first_day"], lake.day_ago(89).to_string());

    // A wrong key says why.
    lake.put(&lake.key, &with(&body, "secret_key", json!("hidden-secret"))).await.expect_status(200);
    let tested = test().await;
    let answer = tested.parse_json();
    assert_eq!((&answer["ok"], &answer["status"]), (&json!(false), &json!(403)), "{answer}");

    let (shown, log) =
        (lake.get(EXPORT, &lake.key).await.text, lake.get("/v1/audit-log", &lake.key).await.text);
    assert!(log.contains("parquet_export.set"), "{log}");
    let page =
        unslide_world::Browser::signed_in(&lake, &lake.key).await.fetch_page("/console/parquet-export").await;
    assert!(page.contains("/lake/crashes"), "{page}");
    let access_key = body["access_key"].as_str().unwrap();
    for secret in ["hidden-secret", access_key, body["secret_key"].as_str().unwrap()] {
        for text in [&set.to_string(), &shown, &log, &tested.text, &page] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let stored = format!(
            "SELECT count(*) FROM parquet_exports WHERE position('{secret}'::bytea IN sealed_target) > 0"
        );
        assert_eq!(lake.number(&stored).await, 0);
    }
    assert_eq!(lake.number("SELECT count(*) FROM jobs WHERE kind = 'write_parquet_days'").await, 1);

    lake.delete(EXPORT, &lake.key).await.expect_status(200);
    assert_eq!(lake.get(EXPORT, &lake.key).await.expect_status(200), json!({}));
    let has_ended =
        "SELECT count(*) FROM jobs WHERE kind = 'write_parquet_days' AND status IN ('queued', 'running')";
    lake.wait_for("the end of the job", async || lake.number(has_ended).await == 0).await;
    lake.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_may_not_be_reached_or_cannot_work_is_refused() {
    let lake = Lake::start(&[]).await;
    let body = json!({"bucket": "lake", "access_key": "A", "secret_key": "hunter2"});
    for (name, value, part) in [
        ("address", "ftp://s3.example.com", "address"),
        ("address", "https://169.254.169.254", "builder.parquet_export.networks"),
        ("address", "https://s3.example.com:8443", "builder.parquet_export.ports"),
        ("bucket", "../other", "bucket"),
        ("bucket", "", "bucket"),
        ("prefix", "a/../b", "prefix"),
        ("region", "eu/central", "region"),
        ("secret_key", "", "secret_key"),
        ("access_key", "", "access_key"),
    ] {
        let detail =
            lake.put(&lake.key, &with(&body, name, json!(value))).await.expect_problem(400, "invalid-body");
        assert!(detail.contains(part) && !detail.contains("hunter2"), "{name} {value}: {detail}");
    }
    let of_app = lake.key_for("acme", &[Scope::TenantAdmin], Some("shop")).await;
    lake.put(&of_app, &body).await.expect_problem(403, "insufficient-scope");
    lake.get(EXPORT, &of_app).await.expect_problem(403, "insufficient-scope");
    lake.stop().await;
}
