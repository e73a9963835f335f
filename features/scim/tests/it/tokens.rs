//! SCIM tokens: who makes them, and what they give.

use crate::scim::directory::{Directory, check_failure, create_token, text};
use reqwest::{Method, StatusCode};
use serde_json::json;
use unslide_model::Scope;

#[tokio::test]
async fn a_token_gives_the_directory_of_its_tenant_and_nothing_else() {
    let directory = Directory::start().await;
    let world = &directory.world;
    assert!(directory.token.starts_with("uscim_"), "scanners know it");
    let robin = directory.add_user("robin").await;
    for path in ["/v1/keys", "/v1/scim", "/v1/scim-tokens", "/v1/reports"] {
        world.get(path, &directory.token).await.expect_problem(401, "unauthorized");
    }
    // No other key is one.
    for key in ["", &directory.admin, "uscim_0000000000000000000000abcd", "x"] {
        let request = world.request(Method::GET, "/scim/v2/Users", key);
        let answer = world.send(request).await;
        assert!(answer.headers.contains_key("www-authenticate"));
        check_failure(answer, 401, None);
    }
    // Another tenant neither sees nor changes the users.
    let other = world.create_master_key("umbrella").await;
    let other = create_token(world, &other).await;
    let users = world.get("/scim/v2/Users", &other).await.expect_status(200);
    assert_eq!(users["totalResults"], 0);
    for method in [Method::GET, Method::DELETE] {
        let request = world.request(method, &format!("/scim/v2/Users/{robin}"), &other);
        check_failure(world.send(request).await, 404, None);
    }
    let same = json!({"userName": "robin", "externalId": "id-robin"});
    world.post_json("/scim/v2/Users", &other, &same).await.expect_status(201);
    let state = world.get("/v1/scim", &directory.admin).await.expect_status(200);
    let numbers =
        ["users", "active_users", "unmatched_users", "groups"].map(|name| state[name].as_i64().unwrap());
    assert_eq!((numbers, state["path"].as_str()), ([1, 1, 0, 0], Some("/scim/v2")));
    directory.world.stop().await;
}

#[tokio::test]
async fn administrators_with_every_scope_make_tokens_and_end_them() {
    let directory = Directory::start().await;
    let world = &directory.world;
    let new = json!({"name": "Entra"});
    let narrow = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let refused = world.post_json("/v1/scim-tokens", &narrow, &new).await;
    assert!(refused.expect_problem(403, "insufficient-scope").contains("lacks the scope"));
    let of_app = world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await;
    world.post_json("/v1/scim-tokens", &of_app, &new).await.expect_problem(403, "insufficient-scope");
    let listed = world.get("/v1/scim-tokens", &directory.admin).await.expect_status(200);
    assert!(!listed.to_string().contains(&directory.token), "the text is shown once");
    let id = text(&listed["items"][0]["id"]);
    directory.get("/Users").await.expect_status(200);
    let path = format!("/v1/scim-tokens/{id}");
    assert_eq!(world.delete(&path, &directory.admin).await.status, StatusCode::NO_CONTENT);
    check_failure(directory.get("/Users").await, 401, None);
    world.delete(&path, &directory.admin).await.expect_problem(404, "not-found");
    directory.world.stop().await;
}

#[tokio::test]
async fn a_leaver_loses_access_in_a_suspended_tenant_too() {
    let directory = Directory::start().await;
    let world = &directory.world;
    let robin = directory.add_user("robin").await;
    world.execute("UPDATE tenants SET state = 'suspended', version = version + 1 WHERE slug = 'acme'").await;
    let operations = json!([{"op": "replace", "value": {"active": false}}]);
    let changed = directory.patch(&format!("/Users/{robin}"), operations).await.expect_status(200);
    assert_eq!(changed["active"], false);
    directory.world.stop().await;
}
