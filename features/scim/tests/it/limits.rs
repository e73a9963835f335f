//! Pages, requests that are wrong, and bodies that are too large.

use crate::scim::directory::{Directory, USER_SCHEMA, check_failure, text};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn pages_are_in_one_order_and_have_every_user_once() {
    let directory = Directory::start().await;
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(directory.add_user(&format!("user-{number}")).await);
    }
    made.sort_unstable();
    let mut seen = Vec::new();
    for start in [1, 3, 5, 7] {
        let page = directory.get(&format!("/Users?startIndex={start}&count=2")).await.expect_status(200);
        assert_eq!((&page["totalResults"], &page["startIndex"]), (&json!(5), &json!(start)));
        let users = page["Resources"].as_array().unwrap();
        assert_eq!(page["itemsPerPage"], users.len());
        seen.extend(users.iter().map(|user| text(&user["id"])));
    }
    assert_eq!(seen, made);
    let none = directory.get("/Users?count=0").await.expect_status(200);
    assert_eq!((&none["totalResults"], &none["Resources"]), (&json!(5), &json!([])));
    check_failure(directory.get("/Users?startIndex=x").await, 400, Some("invalidValue"));
    directory.world.stop().await;
}

#[tokio::test]
async fn wrong_requests_are_refused_in_the_form_of_the_protocol() {
    let directory = Directory::start().await;
    let robin = directory.add_user("robin").await;
    let kim = directory.add_user("kim").await;
    let path = format!("/Users/{robin}");
    for filter in ["userName%20co%20%22a%22", "title%20eq%20%22a%22", "userName", "active%20eq%20true"] {
        check_failure(directory.get(&format!("/Users?filter={filter}")).await, 400, Some("invalidFilter"));
    }
    check_failure(directory.get("/Groups?filter=id%20eq%20%22a%22").await, 400, Some("invalidFilter"));
    check_failure(
        directory.post("/Users", &json!({"schemas": [USER_SCHEMA]})).await,
        400,
        Some("invalidValue"),
    );
    check_failure(directory.post("/Groups", &json!({"displayName": ""})).await, 400, Some("invalidValue"));
    check_failure(directory.patch(&path, json!([{"op": "remove"}])).await, 400, Some("noTarget"));
    let broken = json!([{"op": "replace", "path": "emails[type", "value": 1}]);
    check_failure(directory.patch(&path, broken).await, 400, Some("invalidPath"));
    check_failure(directory.send(Method::PUT, &path, &Value::Null).await, 400, Some("invalidValue"));
    let taken = json!([{"op": "replace", "path": "userName", "value": "KIM"}]);
    check_failure(directory.patch(&path, taken).await, 409, Some("uniqueness"));
    let taken = json!([{"op": "replace", "path": "externalId", "value": "id-kim"}]);
    check_failure(directory.patch(&path, taken).await, 409, Some("uniqueness"));
    for missing in ["robin", "00000000-0000-7000-8000-000000000000", &format!("{kim}0")] {
        check_failure(directory.get(&format!("/Users/{missing}")).await, 404, None);
        check_failure(directory.get(&format!("/Groups/{missing}")).await, 404, None);
    }
    // One operation that is wrong undoes those before it.
    let half = json!([{"op": "replace", "path": "displayName", "value": "R"}, {"op": "replace", "path": "active", "value": "x"}]);
    check_failure(directory.patch(&path, half).await, 400, Some("invalidValue"));
    assert_eq!(directory.get(&path).await.expect_status(200).get("displayName"), None);
    let request = directory.world.request(Method::POST, "/scim/v2/Users", &directory.token);
    check_failure(directory.world.send(request.body("{")).await, 400, Some("invalidSyntax"));
    let long = json!({"userName": "long", "displayName": "x".repeat(3 << 20)});
    check_failure(directory.post("/Users", &long).await, 413, None);
    directory.world.stop().await;
}

#[tokio::test]
async fn a_thousand_members_come_in_one_request() {
    let directory = Directory::start().await;
    let world = &directory.world;
    world
        .execute(
            "INSERT INTO scim_users (tenant, id, user_name, external_id, is_active, attributes, created_at, changed_at)
             SELECT 'acme', gen_random_uuid(), 'user-' || n, 'id-' || n, true, '{}', now(), now()
             FROM generate_series(1, 1000) n",
        )
        .await;
    let mut ids = Vec::new();
    for start in [1, 201, 401, 601, 801] {
        let page = directory.get(&format!("/Users?startIndex={start}&count=500")).await.expect_status(200);
        assert_eq!(page["itemsPerPage"], 200, "a page has a limit");
        ids.extend(page["Resources"].as_array().unwrap().iter().map(|user| text(&user["id"])));
    }
    let group = directory.post("/Groups", &json!({"displayName": "all"})).await.expect_status(201);
    let path = format!("/Groups/{}", text(&group["id"]));
    let members: Value = ids.iter().map(|id| json!({"$ref": null, "value": id})).collect();
    directory
        .patch(&path, json!([{"op": "Add", "path": "members", "value": members}]))
        .await
        .expect_status(204);
    assert_eq!(directory.members(&text(&group["id"])).await.len(), 1_000);
    directory.world.stop().await;
}
