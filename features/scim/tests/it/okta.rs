//! The requests of Okta in their order.

use crate::scim::directory::{Directory, GROUP_SCHEMA, USER_SCHEMA, check_failure, text};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn okta_assigns_changes_deactivates_and_reactivates_a_user() {
    let directory = Directory::start().await;
    // The test of the connection.
    let empty = directory.get("/Users?startIndex=1&count=2").await;
    assert_eq!(empty.headers["content-type"], "application/scim+json");
    let empty = empty.expect_status(200);
    assert_eq!((&empty["totalResults"], &empty["Resources"]), (&json!(0), &json!([])));
    directory.get("/Groups?count=100").await.expect_status(200);
    let find = "/Users?filter=userName%20eq%20%22robin%40example.com%22&startIndex=1&count=100";
    assert_eq!(directory.get(find).await.expect_status(200)["totalResults"], 0);
    let new = json!({"schemas": [USER_SCHEMA], "userName": "robin@example.com",
        "name": {"givenName": "Robin", "familyName": "Ito"},
        "emails": [{"primary": true, "value": "robin@example.com", "type": "work"}],
        "displayName": "Robin Ito", "locale": "en-US", "externalId": "00ujl29u0le5T6Aj10h7", "groups": [],
        "password": "1mz050nq", "active": true});
    let created = directory.post("/Users", &new).await.expect_status(201);
    let id = text(&created["id"]);
    for kept in ["userName", "name", "emails", "displayName", "externalId", "active"] {
        assert_eq!(created[kept], new[kept], "{kept}");
    }
    assert_eq!(created["meta"]["location"], format!("/scim/v2/Users/{id}"));
    let stored = "SELECT count(*) FROM scim_users u WHERE u::text LIKE '%1mz050nq%'";
    assert_eq!(directory.world.number(stored).await, 0, "no password is kept");
    check_failure(directory.post("/Users", &new).await, 409, Some("uniqueness"));
    let found = directory.get(&find.replace("robin", "ROBIN")).await.expect_status(200);
    assert_eq!((&found["totalResults"], &found["Resources"][0]), (&json!(1), &created));
    // An application of the wizard sends the whole user after it has read it.
    let path = format!("/Users/{id}");
    let mut whole = directory.get(&path).await.expect_status(200);
    whole["active"] = json!(false);
    whole["name"]["familyName"] = json!("Ito-Lee");
    let changed = directory.send(Method::PUT, &path, &whole).await.expect_status(200);
    assert_eq!((&changed["active"], &changed["name"]["familyName"]), (&json!(false), &json!("Ito-Lee")));
    // A user without `active` stays as they were.
    whole.as_object_mut().unwrap().remove("active");
    whole["displayName"] = json!("R. Ito");
    let changed = directory.send(Method::PUT, &path, &whole).await.expect_status(200);
    assert_eq!((&changed["active"], &changed["displayName"]), (&json!(false), &json!("R. Ito")));
    // As Okta documents it: without the provider's id, and with an empty part of the name.
    let documented = json!({"schemas": [USER_SCHEMA], "id": id, "userName": "robin@example.com",
        "name": {"givenName": "Robin", "middleName": "", "familyName": "Ito"},
        "emails": [{"primary": true, "value": "robin@example.com", "type": "work", "display": "robin@example.com"}],
        "active": false, "groups": [], "meta": {"resourceType": "User"}});
    let changed = directory.send(Method::PUT, &path, &documented).await.expect_status(200);
    assert_eq!((&changed["externalId"], &changed["active"]), (&new["externalId"], &json!(false)));
    // One of the catalogue sends a value without a path.
    for active in [true, false] {
        let operations = json!([{"op": "replace", "value": {"active": active}}]);
        let changed = directory.patch(&path, operations).await.expect_status(200);
        assert_eq!((&changed["active"], &changed["id"]), (&json!(active), &json!(id)));
    }
    assert_eq!(directory.get(find).await.expect_status(200)["Resources"][0]["active"], false, "still listed");
    let log = directory.world.get("/v1/audit-log", &directory.admin).await.expect_status(200);
    let entries = log["items"].as_array().unwrap();
    let of = |action: &str| entries.iter().filter(|entry| entry["action"] == action).count();
    assert_eq!((of("scim_user.create"), of("scim_user.change"), of("scim_token.create")), (1, 5, 1));
    assert!(!log.to_string().contains("robin@example.com"), "the log names no person");
    directory.world.stop().await;
}

#[tokio::test]
async fn okta_pushes_a_group_renames_it_and_unlinks_it() {
    let directory = Directory::start().await;
    let (robin, kim) = (directory.add_user("robin").await, directory.add_user("kim").await);
    let new = json!({"schemas": [GROUP_SCHEMA], "displayName": "crash-team", "members": []});
    let created = directory.post("/Groups", &new).await.expect_status(201);
    let id = text(&created["id"]);
    let path = format!("/Groups/{id}");
    check_failure(directory.post("/Groups", &new).await, 409, Some("uniqueness"));
    let operations = json!([
        {"op": "replace", "value": {"id": id, "displayName": "crash-team"}},
        {"op": "add", "path": "members", "value": [{"value": robin, "display": "robin"}]},
        {"op": "add", "path": "members", "value": [{"value": kim, "display": "kim"}]}]);
    directory.patch(&path, operations).await.expect_status(204);
    let mut both = vec![robin.clone(), kim.clone()];
    both.sort_unstable();
    assert_eq!(directory.members(&id).await, both);
    let remove = json!([{"op": "remove", "path": format!("members[value eq \"{robin}\"]")}]);
    directory.patch(&path, remove).await.expect_status(204);
    assert_eq!(directory.members(&id).await, [kim.as_str()]);
    directory
        .patch(&path, json!([{"op": "replace", "path": "members", "value": [{"value": robin}]}]))
        .await
        .expect_status(204);
    assert_eq!(directory.members(&id).await, [robin.as_str()]);
    let renamed = json!([{"op": "replace", "value": {"id": id, "displayName": "leads"}}]);
    directory.patch(&path, renamed).await.expect_status(204);
    let whole =
        json!({"schemas": [GROUP_SCHEMA], "id": id, "displayName": "leads", "members": [{"value": kim}]});
    let put = directory.send(Method::PUT, &path, &whole).await.expect_status(200);
    assert_eq!((&put["displayName"], &put["members"]), (&json!("leads"), &json!([{"value": kim}])));
    let listed = directory.get("/Groups?startIndex=1&count=100").await.expect_status(200);
    assert_eq!(
        (&listed["totalResults"], &listed["Resources"][0]["displayName"]),
        (&json!(1), &json!("leads"))
    );
    directory.ask(Method::DELETE, &path).await.expect_status(204);
    check_failure(directory.get(&path).await, 404, None);
    assert_eq!(directory.world.number("SELECT count(*) FROM scim_members").await, 0);
    directory.world.stop().await;
}
