//! What a source cannot do: bring other files, large ones, or hold up the builder.

use crate::symbol_sources::shop::{Shop, read_dsym, unified_path};
use crate::symbol_sources::symbol_server::{Played, SymbolServer};
use serde_json::json;
use unslide_store::tenants::QuotaLimits;

async fn expect_refusal(shop: &Shop, server: &SymbolServer, path: &str, played: Played, part: &str) {
    let before = server.paths().len();
    server.play(path, played);
    shop.ask_now().await;
    shop.wait_for("the next request", async || server.paths().len() > before).await;
    let refused = async || {
        let list = shop.get("/v1/missing-symbols", &shop.key).await.expect_status(200);
        let lookup = &list["items"][0]["lookups"][0];
        lookup["outcome"] == "refused"
            && lookup["detail"].as_str().is_some_and(|detail| detail.contains(part))
    };
    shop.wait_for(part, refused).await;
    let source = shop.read_source("server").await;
    assert!(source["problem"].as_str().unwrap().contains(part), "{source}");
    assert_eq!(source["failures"], 0, "the source is asked for the next image");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_what_was_asked_for_is_not_taken() {
    let server = SymbolServer::start().await;
    let shop = Shop::start(&[server.port]).await;
    let ((dsym, debug_id), (other, other_id)) = (read_dsym("app"), read_dsym("app-next"));
    shop.set_server(&server.url(), "unified").await;
    shop.store_report("acme", 1, debug_id).await;
    shop.wait_for_lookup("not_found").await;
    let path = unified_path(&debug_id);
    expect_refusal(&shop, &server, &path, Played::File(other), &other_id.to_string()).await;
    expect_refusal(&shop, &server, &path, Played::File(b"<html>".to_vec()), "a web page").await;
    // The begin of a file.
    let begin = dsym.get(..64).unwrap().to_vec();
    expect_refusal(&shop, &server, &path, Played::File(begin), "no Mach-O object with a debug id").await;
    let limits = QuotaLimits { upload_bytes: dsym.len() as u64 - 1, ..QuotaLimits::default() };
    shop.change_limits("acme", &limits).await;
    expect_refusal(&shop, &server, &path, Played::File(dsym.clone()), "more than").await;
    expect_refusal(&shop, &server, &path, Played::WithoutSize(dsym.clone()), "more than").await;
    let limits = QuotaLimits { symbol_bytes: dsym.len() as u64 - 1, ..QuotaLimits::default() };
    shop.change_limits("acme", &limits).await;
    expect_refusal(&shop, &server, &path, Played::File(dsym.clone()), "the limit is").await;
    assert_eq!(shop.number("SELECT count(*) FROM uploads").await, 0);
    assert_eq!(shop.list_objects("acme").await, [""; 0]);
    // It is there after all, without its size.
    shop.change_limits("acme", &QuotaLimits::default()).await;
    server.play(&path, Played::WithoutSize(dsym));
    shop.ask_now().await;
    shop.wait_for_revisions(1).await;
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_is_left_alone_for_a_while_and_holds_up_no_other() {
    let (silent, good) = (SymbolServer::start().await, SymbolServer::start().await);
    let shop = Shop::start(&[silent.port, good.port]).await;
    let ((dsym, debug_id), (_, other_id)) = (read_dsym("app"), read_dsym("app-next"));
    for id in [debug_id, other_id] {
        silent.play(&unified_path(&id), Played::Silent);
    }
    good.play(&unified_path(&debug_id), Played::File(dsym));
    for (name, server) in [("a", &silent), ("b", &good)] {
        let body = json!({"name": name, "kind": "http", "layout": "unified", "address": server.url()});
        shop.put(&shop.key, &body).await.expect_status(200);
    }
    shop.store_report("acme", 1, debug_id).await;
    shop.store_report("acme", 2, other_id).await;
    shop.wait_for_revisions(1).await;
    let source = shop.read_source("a").await;
    assert!(source["problem"].as_str().unwrap().contains("does not answer"), "{source}");
    assert!(source["waits_until"].is_string() && source["failures"].as_i64() >= Some(1), "{source}");
    // One image is still missing: one source had an answer, the other none.
    let missing = shop.get("/v1/missing-symbols", &shop.key).await.expect_status(200);
    let lookups = missing["items"][0]["lookups"].as_array().unwrap().clone();
    let outcomes: Vec<_> = lookups.iter().map(|lookup| (&lookup["source"], &lookup["outcome"])).collect();
    assert_eq!(outcomes, [(&json!("a"), &json!("failed")), (&json!("b"), &json!("not_found"))], "{missing}");
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_redirect_is_followed_and_a_silent_body_ends() {
    let (server, target) = (SymbolServer::start().await, SymbolServer::start().await);
    let shop = Shop::start(&[server.port, target.port]).await;
    let (_, debug_id) = read_dsym("app");
    let path = unified_path(&debug_id);
    shop.set_server(&server.url(), "unified").await;
    for (played, part) in [
        (Played::Redirect(format!("http://127.0.0.1:{}/a", target.port)), "redirect"),
        (Played::SilentBody, "does not send the whole file"),
        (Played::Status(503), "fewer requests"),
        (Played::Status(401), "other credentials"),
    ] {
        server.play(&path, played);
        shop.store_report("acme", 1, debug_id).await;
        shop.ask_now().await;
        let has_failed = async || {
            let source = shop.read_source("server").await;
            source["problem"].as_str().is_some_and(|problem| problem.contains(part))
        };
        shop.wait_for(part, has_failed).await;
    }
    assert_eq!(target.paths(), [""; 0]);
    assert_eq!(shop.number("SELECT count(*) FROM uploads").await, 0);
    shop.stop().await;
}
