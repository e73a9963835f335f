//! Who may do what, and what is refused.

use crate::owners::looks::FILE;
use crate::owners::owner_world::{APP, OwnerWorld};
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::tenants::QuotaLimits;

#[tokio::test]
async fn foreign_ids_are_not_found_and_a_key_needs_the_scope() {
    let world = OwnerWorld::start().await;
    world.set_root().await.expect_status(200);
    let file = world.upload("", FILE).await;
    let group = world.store_report(1, 1, &[("Cart.add", "Sources/Cart/Cart.swift", false)]).await;
    world.wait_for_look(group).await;
    let scopes = [Scope::ReportsRead, Scope::SymbolsWrite];
    let foreign = world.create_key("umbrella", &scopes).await;
    let other_app = world.key_for("acme", &scopes, Some("com.acme.other")).await;
    let (group_path, file_path) =
        (format!("/v1/groups/{group}/owners"), format!("/v1/owners/{}", file["id"].as_str().unwrap()));
    for key in [&foreign, &other_app] {
        world.get(&group_path, key).await.expect_problem(404, "not-found");
        world.delete(&file_path, key).await.expect_problem(404, "not-found");
    }
    let theirs = world.get(&format!("/v1/owners?app={APP}"), &foreign).await.expect_status(200);
    assert_eq!((&theirs["files"], &theirs["shares"]["crashes"]), (&json!([]), &0.into()));
    world.get(&format!("/v1/owners?app={APP}"), &other_app).await.expect_problem(403, "insufficient-scope");
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    let uploader = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let upload = format!("/v1/owners?app={APP}");
    world.post(&upload, &reader, FILE).await.expect_problem(403, "insufficient-scope");
    world.delete(&file_path, &reader).await.expect_problem(403, "insufficient-scope");
    world.get(&group_path, &uploader).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_and_invalid_lines_are_listed() {
    let world = OwnerWorld::start().await;
    let key = &world.key;
    world.post("/v1/owners", key, FILE).await.expect_problem(400, "invalid-parameter");
    let path = format!("/v1/owners?app={APP}");
    let detail = world.post(&format!("{path}&dialect=gitea"), key, FILE).await;
    assert!(detail.expect_problem(400, "invalid-parameter").contains("github or gitlab"));
    let answer = world.post(&path, key, b"/a @a\n\xff".to_vec()).await;
    assert!(answer.check_problem().contains("invalid-upload"), "{}", answer.check_problem());
    let answer = world.post(&path, key, vec![b'#'; 3_000_001]).await;
    assert_eq!(answer.status, 413);
    let stored = world.upload("4.2.0", "* @acme/all\n!a @acme/b\n").await;
    assert_eq!(
        (&stored["rules"], &stored["problems"], &stored["version"]),
        (&1.into(), &1.into(), &"4.2.0".into())
    );
    assert_eq!(stored["first_problems"][0]["line"], 2);
    for (paths, words) in [
        (json!([{"from": "/a", "to": "../b"}]), "from the root of the repository"),
        (json!([{"from": "/a", "to": ""}, {"from": "/a/", "to": "b"}]), "written once"),
        (Value::Array(vec![json!({"from": "/a", "to": ""}); 101]), "at most 100"),
    ] {
        let body = json!({"app": APP, "paths": paths}).to_string();
        let request = world.request(reqwest::Method::PUT, "/v1/owners/paths", key);
        let answer = world.send(request.header("content-type", "application/json").body(body)).await;
        assert!(answer.expect_problem(400, "invalid-body").contains(words), "{words}");
    }
    world.stop().await;
}

#[tokio::test]
async fn files_count_against_the_limit_on_symbols_and_apps_are_bounded() {
    let world = OwnerWorld::start().await;
    let key = &world.key;
    let path = format!("/v1/owners?app={APP}");
    world.change_limits("acme", &QuotaLimits { symbol_bytes: 1_000, ..QuotaLimits::default() }).await;
    let file = |bytes: usize| format!("* @a\n#{}\n", "x".repeat(bytes - 7));
    let stored = world.post(&path, key, file(700)).await.expect_status(200);
    assert_eq!(stored["size"], 700);
    let refused = world.post(&format!("{path}&version=2"), key, file(400)).await;
    assert!(refused.expect_problem(507, "symbol-quota").contains("700 bytes are stored"));
    // In place of the other one it fits.
    world.post(&path, key, file(900)).await.expect_status(200);
    world.change_limits("acme", &QuotaLimits::default()).await;
    world
        .execute(
            "INSERT INTO owner_apps (tenant, app, epoch, swept_epoch, changed_at)
             SELECT 'acme', 'com.acme.app' || n, 1, 1, now() FROM generate_series(1, 199) AS n",
        )
        .await;
    let refused = world.post("/v1/owners?app=com.acme.more", key, file(10)).await;
    let detail = refused.expect_problem(409, "limit-reached");
    assert!(detail.contains("com.acme.more: 200 apps of the tenant have owners"), "{detail}");
    let body = json!({"app": "com.acme.more", "paths": [{"from": "/a", "to": ""}]}).to_string();
    let request = world.request(reqwest::Method::PUT, "/v1/owners/paths", key);
    let answer = world.send(request.header("content-type", "application/json").body(body)).await;
    answer.expect_problem(409, "limit-reached");
    world.post(&path, key, file(10)).await.expect_status(200);
    world.stop().await;
}
