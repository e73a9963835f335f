//! A tenant with a SCIM token, and the requests of a provider.

use reqwest::Method;
use serde_json::{Value, json};
use unslide_world::{Answer, World};

/// The schema of changes.
pub const PATCH_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
pub const USER_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
pub const GROUP_SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";

/// An api with a provider that has a token of a tenant.
pub struct Directory {
    pub world: World,
    pub admin: String,
    pub token: String,
}

impl Directory {
    pub async fn start() -> Directory {
        let world = World::start(unslide_feature::for_api(&[unslide_scim::feature()]), |_| {}).await;
        let admin = world.create_master_key("acme").await;
        let token = create_token(&world, &admin).await;
        Directory { world, admin, token }
    }

    /// Sends a request without a body.
    pub async fn ask(&self, method: Method, path: &str) -> Answer {
        self.world.send(self.world.request(method, &format!("/scim/v2{path}"), &self.token)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path).await
    }

    /// Sends a body with the media type of the protocol.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.world.request(method, &format!("/scim/v2{path}"), &self.token);
        let request = request.header("content-type", "application/scim+json; charset=utf-8");
        self.world.send(request.body(body.to_string())).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, body).await
    }

    /// Sends operations of a PATCH.
    pub async fn patch(&self, path: &str, operations: Value) -> Answer {
        let body = json!({"schemas": [PATCH_SCHEMA], "Operations": operations});
        self.send(Method::PATCH, path, &body).await
    }

    /// Makes a user, and returns their id.
    pub async fn add_user(&self, name: &str) -> String {
        let user = json!({"schemas": [USER_SCHEMA], "userName": name, "externalId": format!("id-{name}")});
        text(&self.post("/Users", &user).await.expect_status(201)["id"])
    }

    /// Returns the ids of the members of a group.
    pub async fn members(&self, group: &str) -> Vec<String> {
        let shown = self.get(&format!("/Groups/{group}")).await.expect_status(200);
        shown["members"].as_array().unwrap().iter().map(|member| text(&member["value"])).collect()
    }
}

pub async fn create_token(world: &World, admin: &str) -> String {
    let created = world.post_json("/v1/scim-tokens", admin, &json!({"name": "Okta"})).await;
    text(&created.expect_status(201)["text"])
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// Checks a failure in the form of the protocol.
pub fn check_failure(answer: Answer, status: u16, kind: Option<&str>) {
    assert_eq!(answer.headers["content-type"], "application/scim+json", "{}", answer.text);
    let body = answer.expect_status(status);
    assert_eq!(body["schemas"], json!(["urn:ietf:params:scim:api:messages:2.0:Error"]));
    assert_eq!(body["status"], status.to_string(), "{body}");
    assert_eq!(body["scimType"].as_str(), kind, "{body}");
    assert!(body["detail"].is_string(), "{body}");
}
