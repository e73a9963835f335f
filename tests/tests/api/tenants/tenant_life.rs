//! The life of a tenant, as operators see it over HTTP.

use crate::cases::{attempt, cases, document, operations};
use crate::world::{World, tenant_id};
use reqwest::Method;
use serde_json::json;
use unslide_model::Scope;
use unslide_store::{audit, erasure, jobs, tenants};
use unslide_stream::admin;

#[tokio::test]
async fn an_operator_looks_changes_suspends_and_resumes() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let writer =
        world.create_key("acme", &[Scope::ReportsWrite, Scope::ReportsRead, Scope::SymbolsWrite]).await;
    world.post("/v1/symbols", &writer, b"\xcf\xfa\xed\xfe some bytes".to_vec()).await.expect_status(202);
    let seen = world.get("/v1/tenants/acme", &operator).await.expect_status(200);
    assert_eq!(
        (&seen["state"], &seen["version"], &seen["usage"]["keys"]),
        (&"active".into(), &1.into(), &1.into())
    );
    assert_eq!(seen["usage"]["pending_bytes"], 15);
    assert!(seen.get("erasure").is_none());

    let change = json!({"name": "Acme Inc", "state": "suspended", "limits": {"report_bytes": 9}});
    let changed = world.patch("/v1/tenants/acme", &operator, &change).await.expect_status(200);
    assert_eq!((&changed["version"], &changed["limits"]["report_bytes"]), (&2.into(), &9.into()));
    assert_eq!(changed["announced"], false, "no relay runs in this test");
    let body = crate::world::report_json("11111111-1111-1111-1111-111111111111");
    world.post_json("/v1/reports", &writer, &body).await.expect_problem(403, "tenant-suspended");
    world.get("/v1/reports", &writer).await.expect_status(200);
    // What is not named stays.
    let resumed =
        world.patch("/v1/tenants/acme", &operator, &json!({"state": "active"})).await.expect_status(200);
    assert_eq!(
        (&resumed["name"], &resumed["limits"]["report_bytes"], &resumed["state"]),
        (&"Acme Inc".into(), &9.into(), &"active".into())
    );
    let detail = world.post_json("/v1/reports", &writer, &body).await.expect_problem(413, "too-large");
    assert!(detail.contains("report_bytes") && detail.contains('9'), "{detail}");
    for bad in [
        json!({"state": "deleted"}),
        json!({"state": "gone"}),
        json!({"name": ""}),
        json!({"name": "a\0b"}),
        json!({"limits": {"reports": 1}}),
        json!({"id": "other"}),
    ] {
        world.patch("/v1/tenants/acme", &operator, &bad).await.expect_problem(400, "invalid-body");
    }
    // A suspended operator could not take it back.
    let own = world.patch("/v1/tenants/umbrella", &operator, &json!({"state": "suspended"})).await;
    own.expect_problem(400, "invalid-parameter");
    world.patch("/v1/tenants/nobody", &operator, &json!({})).await.expect_problem(404, "not-found");
    world.get("/v1/tenants/nobody", &operator).await.expect_problem(404, "not-found");
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let entries = audit::list_entries(&mut tx, None, 10).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.action == "tenant.change").count(), 2);
    world.stop().await;
}

/// It looks, also by questions that come in a body, and takes away what is its own; an operator's key of it
/// does no more.
/// Proves: keys
#[tokio::test]
async fn a_suspended_tenant_adds_and_changes_nothing_by_any_operation() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let cases = cases(&world, &key).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let limits = tenants::QuotaLimits::default();
    tenants::change_tenant(&mut tx, "acme", tenants::TenantStanding::Suspended, &limits)
        .await
        .unwrap()
        .unwrap();
    tx.commit().await.unwrap();
    // One that the api does not remember from before.
    let key = world.create_master_key("acme").await;
    let mut operations = operations(&document());
    // What takes something away comes last.
    operations.sort_by_key(|(_, method, ..)| *method == Method::DELETE);
    let allowed = [
        "check_symbols",
        "symbolicate",
        "delete_symbols",
        "delete_report",
        "delete_capture",
        "revoke_key",
        "delete_alert_rule",
        "delete_names_key",
        "delete_scim_token",
        "remove_audit_receiver",
        "remove_otlp",
        "remove_parquet_export",
        "remove_sign_in",
        "remove_slack",
        "remove_symbol_build",
        "remove_symbol_source",
        "remove_testflight",
        "remove_tracker",
        "delete_owners",
    ];
    // A view that another key saved does not exist for this one, nor does its comment.
    let of_others = ["delete_group_view", "delete_group_comment"];
    for (id, method, ..) in operations.iter().filter(|(id, ..)| !of_others.contains(&id.as_str())) {
        let answer = attempt(&world, method, &cases[id.as_str()], &key).await;
        if *method == Method::GET || allowed.contains(&id.as_str()) {
            assert!(answer.status.is_success(), "{id}: {}", answer.text);
        } else {
            answer.expect_problem(403, "tenant-suspended");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_is_made_with_topics_of_its_own_where_tenants_have_them() {
    let world = World::configured(|config| config.kafka.tenant_topics = true).await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let kafka = world.config.kafka.clone();
    let names = kafka.topic_names();
    let own = [names.tenant_input(&tenant_id("stark")), names.tenant_output(&tenant_id("stark"))];
    let there = async || {
        let found = admin::topics_matching(&kafka, |name| own.iter().any(|own| own == name)).await;
        found.unwrap().len()
    };
    assert_eq!(there().await, 0);
    world.post_json("/v1/tenants", &operator, &json!({"id": "stark"})).await.expect_status(201);
    assert_eq!(there().await, 2);
    // A slug that was given and taken back gets none.
    world.delete("/v1/tenants/stark", &operator).await.expect_status(202);
    admin::delete_tenant_topics(&kafka, &tenant_id("stark")).await.unwrap();
    // They are listed for a moment more.
    for _ in 0..3_000 {
        if there().await == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    world.post_json("/v1/tenants", &operator, &json!({"id": "stark"})).await.expect_problem(409, "conflict");
    assert_eq!(there().await, 0);
    world.stop().await;
}

#[tokio::test]
async fn an_operator_lists_and_revokes_a_tenants_keys() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let new = json!({"name": "ci", "scopes": ["symbols:write"], "expires_at": "2999-01-01T00:00:00Z"});
    let made = world.post_json("/v1/tenants/acme/keys", &operator, &new).await.expect_status(201);
    let listed = world.get("/v1/tenants/acme/keys", &operator).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed["items"][0]["id"], &listed["items"][0]["expires_at"]),
        (&made["id"], &"2999-01-01T00:00:00Z".into())
    );
    assert!(!listed.to_string().contains(made["text"].as_str().unwrap()));
    let path = format!("/v1/tenants/acme/keys/{}", made["id"].as_str().unwrap());
    let elsewhere = path.replace("acme", "umbrella");
    world.delete(&elsewhere, &operator).await.expect_problem(404, "not-found");
    world.delete(&path, &operator).await.expect_status(200);
    world.delete(&path, &operator).await.expect_status(200);
    let text = made["text"].as_str().unwrap();
    world.post("/v1/symbols", text, b"\xcf\xfa\xed\xfe".to_vec()).await.expect_problem(401, "unauthorized");
    world.get("/v1/tenants/nobody/keys", &operator).await.expect_problem(404, "not-found");
    world.stop().await;
}

#[tokio::test]
async fn a_deleted_tenant_is_gone_at_once_and_its_erasing_can_be_watched() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let own = world.create_master_key("acme").await;
    world.post("/v1/symbols", &own, b"\xcf\xfa\xed\xfe some bytes".to_vec()).await.expect_status(202);
    world.delete("/v1/tenants/umbrella", &operator).await.expect_problem(400, "invalid-parameter");
    let deleted = world.delete("/v1/tenants/acme", &operator).await.expect_status(202);
    assert_eq!((&deleted["state"], &deleted["name"]), (&"deleted".into(), &"acme".into()));
    world.get("/v1/symbols", &own).await.expect_problem(401, "unauthorized");
    world
        .patch("/v1/tenants/acme", &operator, &json!({"state": "active"}))
        .await
        .expect_problem(404, "not-found");
    world.post_json("/v1/tenants", &operator, &json!({"id": "acme"})).await.expect_problem(409, "conflict");
    let key = json!({"name": "x", "scopes": ["symbols:read"]});
    world.post_json("/v1/tenants/acme/keys", &operator, &key).await.expect_problem(404, "not-found");
    let seen = world.get("/v1/tenants/acme", &operator).await.expect_status(200);
    assert!(seen["erasure"]["requested_at"].is_string() && seen["erasure"].get("finished_at").is_none());
    let counted = world.delete("/v1/tenants/acme?dry_run=true", &operator).await.expect_status(200);
    assert_eq!((&counted["would_remove"]["uploads"], &counted["complete"]), (&1.into(), &true.into()));
    assert_eq!(counted["would_remove"]["audit_log"], serde_json::Value::Null, "it stays");
    world.delete("/v1/tenants/missing?dry_run=true", &operator).await.expect_problem(404, "not-found");
    world.delete("/v1/tenants/acme", &operator).await.expect_status(202);
    // What a builder does.
    let job = jobs::lease_jobs(&world.store, &[jobs::JobKind::Erase], "b", time::Duration::MINUTE, 9)
        .await
        .unwrap()
        .remove(0);
    let objects = world.bucket().await;
    let prefix = unslide_artifacts::keys::tenant_prefix(&tenant_id("acme"));
    let stored = objects.list(&prefix, None, 10).await.unwrap().entries;
    assert_eq!(stored.len(), 1);
    objects.delete(&stored[0].key).await.unwrap();
    let mut emptied = 0;
    loop {
        let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
        let gone = erasure::erase_rows(&mut tx, &mut emptied, 100).await.unwrap();
        if gone.is_none() {
            erasure::record_objects(&mut tx, 1, 15).await.unwrap();
            assert!(erasure::finish_erasure(&mut tx, &job, 0).await.unwrap());
        }
        tx.commit().await.unwrap();
        if gone.is_none() {
            break;
        }
    }
    let seen = world.get("/v1/tenants/acme", &operator).await.expect_status(200);
    let erasure = &seen["erasure"];
    assert_eq!((&erasure["removed"]["uploads"], &erasure["removed"]["keys"]), (&1.into(), &1.into()));
    assert_eq!((&erasure["objects"], &erasure["remaining"]["object storage"]), (&1.into(), &0.into()));
    assert!(erasure["finished_at"].is_string());
    assert_eq!(seen["usage"]["keys"], 0);
    world.stop().await;
}

/// The file is on its way when its tenant is deleted: nothing of it stays.
#[tokio::test]
async fn an_upload_that_its_tenant_does_not_outlive_leaves_nothing() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let (sender, pieces) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(4);
    let body = reqwest::Body::wrap_stream(futures::stream::unfold(pieces, |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece, pieces))
    }));
    let sending = async { world.post("/v1/symbols", &key, body).await };
    let deleting = async {
        let mut first = b"\xcf\xfa\xed\xfe".to_vec();
        first.resize(70_000, 0);
        sender.send(Ok(first)).await.unwrap();
        while world.number("SELECT count(*) FROM uploads").await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
        erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        sender.send(Ok(vec![1; 1_000])).await.unwrap();
        drop(sender);
    };
    let (answer, ()) = tokio::join!(sending, deleting);
    answer.expect_problem(401, "unauthorized");
    assert_eq!(world.list_objects("acme").await, Vec::<String>::new());
    assert_eq!(world.number("SELECT count(*) FROM jobs WHERE kind = 'build'").await, 0);
    world.stop().await;
}
