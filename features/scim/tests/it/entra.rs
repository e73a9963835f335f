//! The requests of Microsoft Entra in their order.

use crate::scim::directory::{Directory, GROUP_SCHEMA, USER_SCHEMA, check_failure, text};
use reqwest::Method;
use serde_json::{Value, json};

const ENTERPRISE_SCHEMA: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

#[tokio::test]
async fn entra_provisions_deactivates_and_deletes_a_user() {
    let directory = Directory::start().await;
    // The test of the connection wants an empty list.
    let random = "/Users?filter=userName+eq+%226b8a3a9c-2d0e-4d44-8a11-6a1b1b1c6c0e%22";
    let empty = directory.get(random).await.expect_status(200);
    assert_eq!((&empty["totalResults"], &empty["itemsPerPage"]), (&json!(0), &json!(0)));
    let schemas = directory.get("/Schemas").await.expect_status(200);
    assert_eq!(schemas["Resources"][0]["id"], USER_SCHEMA);
    let config = directory.get("/ServiceProviderConfig").await.expect_status(200);
    let supported = |part: &str| config[part]["supported"].as_bool().unwrap();
    assert!(supported("patch") && supported("filter"));
    assert!(!["bulk", "sort", "etag", "changePassword"].into_iter().any(supported));
    let types = directory.get("/ResourceTypes").await.expect_status(200);
    assert_eq!(types["Resources"][1]["endpoint"], "/Groups");
    let new = json!({"schemas": [USER_SCHEMA, ENTERPRISE_SCHEMA], "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
        "userName": "kim@example.com", "active": true, "displayName": "Kim Doe",
        "emails": [{"primary": true, "type": "work", "value": "kim@example.com"}],
        "meta": {"resourceType": "User"}, "name": {"formatted": "Kim Doe", "familyName": "Doe", "givenName": "Kim"},
        "roles": [], "title": "Engineer", ENTERPRISE_SCHEMA: {"department": "shop"}});
    let created = directory.post("/Users", &new).await.expect_status(201);
    let path = format!("/Users/{}", text(&created["id"]));
    let by_id = "/Users?filter=externalId%20eq%20%220a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef%22";
    assert_eq!(directory.get(by_id).await.expect_status(200)["Resources"][0]["id"], created["id"]);
    let both = "/Users?filter=userName%20eq%20%22kim%40example.com%22%20and%20active%20eq%20false";
    assert_eq!(directory.get(both).await.expect_status(200)["totalResults"], 0);
    let changed = directory
        .patch(
            &path,
            json!([
            {"op": "Replace", "path": "emails[type eq \"work\"].value", "value": "kim.doe@example.com"},
            {"op": "Replace", "path": "name.familyName", "value": "Doe-Ito"},
            {"op": "Add", "path": format!("{ENTERPRISE_SCHEMA}:department"), "value": "web"}]),
        )
        .await
        .expect_status(200);
    assert_eq!(changed["emails"][0]["value"], "kim.doe@example.com");
    assert_eq!(changed["name"]["familyName"], "Doe-Ito");
    // With the flag aadOptscim062020.
    let dotted = json!([{"op": "replace", "value": {"name.givenName": "K.", "displayName": "K. Doe"}}]);
    let changed = directory.patch(&path, dotted).await.expect_status(200);
    assert_eq!((&changed["name"]["givenName"], &changed["displayName"]), (&json!("K."), &json!("K. Doe")));
    for (value, is_active) in
        [(json!("False"), false), (json!("True"), true), (json!(false), false), (json!(true), true)]
    {
        let operations = json!([{"op": "Replace", "path": "active", "value": value}]);
        assert_eq!(directory.patch(&path, operations).await.expect_status(200)["active"], is_active);
    }
    let unclear = json!([{"op": "Replace", "path": "active", "value": "Maybe"}]);
    check_failure(directory.patch(&path, unclear).await, 400, Some("invalidValue"));
    directory.ask(Method::DELETE, &path).await.expect_status(204);
    for method in [Method::GET, Method::DELETE] {
        check_failure(directory.ask(method, &path).await, 404, None);
    }
    assert_eq!(directory.get(by_id).await.expect_status(200)["totalResults"], 0);
    let kept = "SELECT count(*) FROM scim_users WHERE user_name = '' AND attributes = '{}' AND NOT is_active";
    assert_eq!(directory.world.number(kept).await, 1, "nothing but the ids stays");
    // The same person comes again.
    directory.post("/Users", &new).await.expect_status(201);
    directory.world.stop().await;
}

#[tokio::test]
async fn entra_provisions_a_group_and_its_members() {
    let directory = Directory::start().await;
    let new = json!({"schemas": [GROUP_SCHEMA, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
        "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159", "displayName": "crash-team",
        "meta": {"resourceType": "Group"}});
    let created = directory.post("/Groups", &new).await.expect_status(201);
    let id = text(&created["id"]);
    let path = format!("/Groups/{id}");
    let find = "/Groups?excludedAttributes=members&filter=displayName%20eq%20%22crash-team%22";
    let found = directory.get(find).await.expect_status(200);
    assert_eq!((&found["Resources"][0]["id"], found["Resources"][0].get("members")), (&json!(id), None));
    let mut users = Vec::new();
    for name in ["robin", "kim", "sam"] {
        users.push(directory.add_user(name).await);
    }
    let named =
        |ids: &[String]| -> Value { ids.iter().map(|id| json!({"$ref": null, "value": id})).collect() };
    let add = json!([{"op": "Add", "path": "members", "value": named(&users)}]);
    assert_eq!(directory.patch(&path, add).await.expect_status(204), Value::Null);
    assert_eq!(directory.members(&id).await.len(), 3);
    // A remove with a value must not empty the group.
    let remove = json!([{"op": "Remove", "path": "members", "value": named(&users[..1])}]);
    directory.patch(&path, remove).await.expect_status(204);
    assert_eq!(directory.members(&id).await.len(), 2);
    let without = directory.get(&format!("{path}?excludedAttributes=members")).await.expect_status(200);
    assert_eq!(without.get("members"), None);
    // A user who is deleted leaves the group, and does not come back into it.
    directory.ask(Method::DELETE, &format!("/Users/{}", users[1])).await.expect_status(204);
    directory
        .patch(&path, json!([{"op": "Add", "path": "members", "value": named(&users[1..2])}]))
        .await
        .expect_status(204);
    assert_eq!(directory.members(&id).await, users[2..]);
    let rename = json!([{"op": "Replace", "path": "displayName", "value": "leads"}]);
    directory.patch(&path, rename).await.expect_status(204);
    assert_eq!(directory.get(&path).await.expect_status(200)["displayName"], "leads");
    directory.world.stop().await;
}
