//! What the builder asks for, and what becomes of it.

use crate::symbol_sources::shop::{SOURCES, Shop, read_dsym, unified_path};
use crate::symbol_sources::symbol_server::{Played, SymbolServer};
use serde_json::json;

/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_waits_gets_the_symbols_of_a_source_and_its_next_revision() {
    let server = SymbolServer::start().await;
    let shop = Shop::start(&[server.port]).await;
    let (dsym, debug_id) = read_dsym("app");
    // One report waits before there is a source, one after it was asked.
    shop.store_report("acme", 1, debug_id).await;
    shop.set_server(&server.url(), "unified").await;
    let lookup = shop.wait_for_lookup("not_found").await;
    assert_eq!((&lookup["source"], &lookup["debug_id"]), (&json!("server"), &json!(debug_id.to_string())));
    assert!(lookup["asked_at"].is_string() && lookup["again_at"].is_string(), "{lookup}");
    shop.store_report("acme", 2, debug_id).await;
    shop.wait_for_turns().await;
    assert_eq!(server.paths(), [format!("/hidden-path/{}", unified_path(&debug_id))], "it is asked once");

    server.play(&unified_path(&debug_id), Played::File(dsym));
    shop.ask_now().await;
    shop.wait_for_revisions(2).await;
    let found = "SELECT count(*) FROM symbol_source_requests r JOIN uploads u ON u.id = r.upload_id
                 WHERE r.state = 'found' AND u.status = 'done' AND u.file_name LIKE 'server/%'";
    shop.wait_for("the upload", async || shop.number(found).await == 1).await;
    let source = shop.read_source("server").await;
    assert!(source["found_at"].is_string() && source["problem"].is_null(), "{source}");
    // Its symbols are there: it is asked for nothing more.
    let asked = server.paths().len();
    shop.ask_now().await;
    shop.wait_for_turns().await;
    assert_eq!(server.paths().len(), asked);
    let missing = shop.get("/v1/missing-symbols", &shop.key).await.expect_status(200);
    assert_eq!(missing["items"], json!([]));
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_after_answers_grow_and_end_with_the_reports() {
    let server = SymbolServer::start().await;
    let shop = Shop::start(&[server.port]).await;
    let (_, debug_id) = read_dsym("app");
    shop.set_server(&server.url(), "debuginfod").await;
    shop.store_report("acme", 1, debug_id).await;
    for (attempts, hours) in [(1, 1), (2, 6), (3, 24), (4, 24)] {
        let pause = format!(
            "SELECT count(*) FROM symbol_source_requests WHERE attempts = {attempts} AND due_at - asked_at = interval '{hours} hours'"
        );
        shop.wait_for("the answer", async || shop.number(&pause).await == 1).await;
        assert_eq!(server.paths().len(), attempts);
        shop.ask_now().await;
    }
    shop.wait_for("the fifth", async || server.paths().len() == 5).await;
    assert!(
        server.paths().iter().all(|path| path.starts_with("/hidden-path/buildid/")),
        "{:?}",
        server.paths()
    );
    // No report has come for 14 days.
    shop.execute("UPDATE wanted_images SET last_seen = now() - interval '15 days'").await;
    shop.execute("UPDATE symbol_source_requests SET created_at = now() - interval '15 days'").await;
    shop.ask_now().await;
    shop.wait_for_turns().await;
    assert_eq!(server.paths().len(), 5);
    shop.store_report("acme", 2, debug_id).await;
    shop.wait_for("the sixth", async || server.paths().len() == 6).await;
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_asked_for_its_own_tenant_only() {
    let server = SymbolServer::start().await;
    let shop = Shop::start(&[server.port]).await;
    let ((dsym, debug_id), (_, other_id)) = (read_dsym("app"), read_dsym("app-next"));
    server.play(&unified_path(&debug_id), Played::File(dsym));
    shop.set_server(&server.url(), "unified").await;
    shop.store_report("umbrella", 1, debug_id).await;
    shop.store_report("acme", 2, other_id).await;
    shop.wait_for_lookup("not_found").await;
    shop.wait_for_turns().await;
    assert_eq!(server.paths(), [format!("/hidden-path/{}", unified_path(&other_id))]);
    let foreign = shop.create_master_key("umbrella").await;
    assert_eq!(shop.get(SOURCES, &foreign).await.expect_status(200)["sources"], json!([]));
    let missing = shop.get("/v1/missing-symbols", &foreign).await.expect_status(200);
    assert!(missing["items"][0]["lookups"].is_null(), "{missing}");
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_source_with_the_file_answers_and_the_job_ends_with_the_last_source() {
    let (first, second) = (SymbolServer::start().await, SymbolServer::start().await);
    let shop = Shop::start(&[first.port, second.port]).await;
    let (dsym, debug_id) = read_dsym("app");
    for server in [&first, &second] {
        server.play(&unified_path(&debug_id), Played::File(dsym.clone()));
    }
    for (name, server) in [("a", &first), ("b", &second)] {
        let body = json!({"name": name, "kind": "http", "layout": "unified", "address": server.url()});
        shop.put(&shop.key, &body).await.expect_status(200);
    }
    shop.store_report("acme", 1, debug_id).await;
    shop.wait_for_revisions(1).await;
    shop.wait_for_turns().await;
    assert_eq!((first.paths().len(), second.paths().len()), (1, 0));
    for name in ["a", "b"] {
        shop.delete(&format!("{SOURCES}/{name}"), &shop.key).await.expect_status(204);
    }
    let ended = "SELECT count(*) FROM jobs WHERE kind = 'ask_symbol_sources' AND status = 'done'";
    shop.wait_for("the end of the job", async || shop.number(ended).await == 1).await;
    assert_eq!(shop.number("SELECT count(*) FROM symbol_source_requests").await, 0);
    // A source that is set again has a job again.
    shop.set_server(&first.url(), "unified").await;
    assert_eq!(shop.number("SELECT count(*) FROM jobs WHERE kind = 'ask_symbol_sources'").await, 2);
    shop.stop().await;
}
