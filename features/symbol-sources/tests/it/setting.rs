//! Who sets sources, and that their credentials stay in.

use crate::symbol_sources::shop::{SOURCES, Shop, read_dsym, unified_path};
use crate::symbol_sources::symbol_server::{Played, SymbolServer};
use serde_json::{Value, json};
use unslide_model::Scope;

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_sealed_and_never_shown() {
    let server = SymbolServer::start().await;
    let shop = Shop::start(&[server.port]).await;
    shop.set_server(&server.url(), "unified").await;
    let bucket = json!({"name": "builds", "kind": "s3", "layout": "unified", "address": format!("http://127.0.0.1:{}", server.port),
                        "bucket": "builds", "prefix": "/dsyms/", "access_key": "AKIAHIDDEN", "secret_key": "hidden-secret"});
    let set = shop.put(&shop.key, &bucket).await.expect_status(200);
    assert_eq!(set["address"], format!("http://127.0.0.1:{}/builds/dsyms", server.port));
    let shown = shop.get(SOURCES, &shop.key).await.text;
    assert!(shown.contains(&format!("http://127.0.0.1:{}/…", server.port)), "{shown}");
    let log = shop.get("/v1/audit-log", &shop.key).await.text;
    assert!(log.contains("symbol_source.set"), "{log}");
    let (_, debug_id) = read_dsym("app");
    let question = json!({"debug_id": debug_id.to_string()});
    let test = shop.post_json(&format!("{SOURCES}/server/test"), &shop.key, &question).await;
    for secret in ["hidden-path", "hidden-token", "AKIAHIDDEN", "hidden-secret"] {
        for shown in [&set.to_string(), &shown, &log, &test.text] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        let stored = format!(
            "SELECT count(*) FROM symbol_sources WHERE position('{secret}'::bytea IN sealed_target) > 0 OR shown_address LIKE '%{secret}%'"
        );
        assert_eq!(shop.number(&stored).await, 0);
    }
    // Secrets stay for the same address, and are sent to no other one.
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let without = with(bucket.clone(), "secret_key", Value::Null);
    shop.put(&shop.key, &with(without.clone(), "prefix", json!("other"))).await.expect_status(200);
    let moved = with(without, "bucket", json!("other"));
    let detail = shop.put(&shop.key, &moved).await.expect_problem(400, "invalid-body");
    assert!(detail.contains("secret_key"), "{detail}");
    shop.delete(&format!("{SOURCES}/builds"), &shop.key).await.expect_status(204);
    shop.delete(&format!("{SOURCES}/builds"), &shop.key).await.expect_problem(404, "not-found");
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_may_not_be_asked_or_cannot_work_is_refused() {
    let shop = Shop::start(&[9_000]).await;
    let http = |address: &str| json!({"name": "a", "kind": "http", "layout": "unified", "address": address});
    let s3 = |bucket: &str| json!({"name": "a", "kind": "s3", "layout": "unified", "bucket": bucket});
    let with = |mut body: Value, name: &str, value: &str| {
        body[name] = json!(value);
        body
    };
    for (body, part) in [
        (http("ftp://symbols.example.com"), "address"),
        (http("https://10.0.0.1/"), "builder.symbol_sources.networks"),
        (http("https://symbols.example.com:8443/"), "builder.symbol_sources.ports"),
        (http("https://user:hunter2@symbols.example.com/"), "a user"),
        (http("https://symbols.example.com/?a=1"), "a query"),
        (with(http("https://symbols.example.com/"), "bucket", "builds"), "bucket"),
        (with(http("https://symbols.example.com/"), "layout", "symstore"), "layout"),
        (with(http("https://symbols.example.com/"), "name", "A"), "name"),
        (json!({"name": "a", "kind": "http", "layout": "unified"}), "address"),
        (json!({"name": "a", "kind": "s3", "layout": "unified"}), "bucket"),
        (s3("../other"), "bucket"),
        (with(s3("builds"), "prefix", "a/../b"), "prefix"),
        (with(s3("builds"), "prefix", "a?b"), "prefix"),
        (with(s3("builds"), "region", "eu/central"), "region"),
        (with(s3("builds"), "access_key", "A"), "secret_key"),
        (with(s3("builds"), "authorization", "Bearer a"), "authorization"),
        (with(s3("builds"), "address", "https://169.254.169.254"), "builder.symbol_sources.networks"),
    ] {
        let detail = shop.put(&shop.key, &body).await.expect_problem(400, "invalid-body");
        assert!(detail.contains(part) && !detail.contains("hunter2"), "{body}: {detail}");
    }
    for number in 1..=5 {
        shop.put(&shop.key, &with(s3("builds"), "name", &format!("builds-{number}")))
            .await
            .expect_status(200);
    }
    shop.put(&shop.key, &s3("builds")).await.expect_problem(409, "limit-reached");
    let of_app = shop.key_for("acme", &[Scope::TenantAdmin], Some("shop")).await;
    shop.put(&of_app, &s3("builds")).await.expect_problem(403, "insufficient-scope");
    shop.get(SOURCES, &of_app).await.expect_problem(403, "insufficient-scope");
    // One job for all sources.
    assert_eq!(shop.number("SELECT count(*) FROM jobs WHERE kind = 'ask_symbol_sources'").await, 1);
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_says_what_the_source_answers() {
    let server = SymbolServer::start().await;
    let shop = Shop::start(&[server.port]).await;
    shop.set_server(&server.url(), "unified").await;
    let (dsym, debug_id) = read_dsym("app");
    let test = async |body: &Value| shop.post_json(&format!("{SOURCES}/server/test"), &shop.key, body).await;
    let question = json!({"debug_id": debug_id.to_string()});
    let answer = test(&question).await.expect_status(200);
    assert_eq!((&answer["ok"], &answer["outcome"]), (&json!(true), &json!("not_found")), "{answer}");
    assert_eq!(server.last_header("authorization").as_deref(), Some("Bearer hidden-token"));
    server.play(&unified_path(&debug_id), Played::File(dsym.clone()));
    let answer = test(&question).await.expect_status(200);
    assert_eq!((&answer["outcome"], &answer["size"]), (&json!("found"), &json!(dsym.len())), "{answer}");
    assert_eq!(answer["path"], unified_path(&debug_id));
    for (played, status, part) in [
        (Played::Status(401), json!(401), "other credentials"),
        (Played::Redirect("http://10.0.0.1/secret".to_owned()), json!(302), "redirect"),
        (Played::Silent, Value::Null, "does not answer"),
    ] {
        server.play(&unified_path(&debug_id), played);
        let answer = test(&question).await.expect_status(200);
        assert_eq!((&answer["ok"], &answer["status"]), (&json!(false), &status), "{answer}");
        assert!(answer["answer"].as_str().unwrap().contains(part), "{answer}");
    }
    test(&json!({})).await.expect_problem(400, "invalid-body");
    shop.stop().await;
}
