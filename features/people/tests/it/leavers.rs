//! People whom the directory of a tenant has deactivated, deleted or moved: each door is closed, until they are active again.

use crate::people::person::{Person, SeenPage, put_settings, settings_for};
use crate::people::provider::Provider;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use unslide_model::Secret;
use unslide_people::{Config, PeopleApiSettings, SignInSettings};
use unslide_world::{Answer, World, tenant_id};

/// An api with people, their directory, the console, assistants and chats, and a tenant with a SCIM token.
struct Office {
    world: World,
    provider: Provider,
    admin: String,
    token: String,
}

impl Office {
    /// Opens it with members of the settings of the identity provider.
    async fn open(settings: Value) -> Office {
        let provider = Provider::start().await;
        let sign_in = SignInSettings { networks: vec!["127.0.0.0/8".to_owned()], ports: vec![provider.port] };
        let people = Config { api: PeopleApiSettings { public_url: String::new(), sign_in } };
        let mut chat = unslide_chat::Config::default();
        chat.api.chat.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        let features = [
            unslide_console::feature(),
            unslide_scim::feature(),
            unslide_people::feature(people),
            unslide_chat::feature(chat),
            unslide_mcp::feature(unslide_mcp::Config::default()),
        ];
        let world = Box::pin(World::start(unslide_feature::for_api(&features), |_| {})).await;
        let admin = world.create_master_key("acme").await;
        let created = world.post_json("/v1/scim-tokens", &admin, &json!({"name": "Okta"})).await;
        let token = created.expect_status(201)["text"].as_str().unwrap().to_owned();
        let office = Office { world, provider, admin, token };
        office.set_provider(settings).await.expect_status(200);
        office
    }

    async fn set_provider(&self, settings: Value) -> Answer {
        let mut body = settings_for(&self.provider);
        body.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        put_settings(&self.world, &self.admin, &body).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let request = self.world.request(method, &format!("/scim/v2{path}"), &self.token);
        let answer = self.world.send(request.body(body.to_string())).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        serde_json::from_str(&answer.text).unwrap_or_default()
    }

    /// Makes a user, and returns the path of their resource.
    async fn add_user(&self, external_id: &str) -> String {
        let user = json!({"userName": format!("{external_id}@example.com"), "externalId": external_id});
        let made = self.send(Method::POST, "/Users", &user).await;
        format!("/Users/{}", made["id"].as_str().unwrap())
    }

    async fn set_active(&self, user: &str, is_active: bool) {
        let change = json!({"Operations": [{"op": "replace", "value": {"active": is_active}}]});
        assert_eq!(self.send(Method::PATCH, user, &change).await["active"], is_active);
    }

    /// Makes a group with a user, and returns the path of its resource.
    async fn add_group(&self, name: &str, users: &[&str]) -> String {
        let members: Value = users.iter().map(|user| json!({"value": user_id(user)})).collect();
        let made =
            self.send(Method::POST, "/Groups", &json!({"displayName": name, "members": members})).await;
        format!("/Groups/{}", made["id"].as_str().unwrap())
    }

    async fn change_member(&self, group: &str, op: &str, user: &str) {
        let change =
            json!({"Operations": [{"op": op, "path": "members", "value": [{"value": user_id(user)}]}]});
        self.send(Method::PATCH, group, &change).await;
    }

    async fn sign_in(&self, subject: &str, groups: &[&str]) -> (Person<'_>, SeenPage) {
        let mut person = Person::new(&self.world, "acme");
        let page = person.sign_in(&self.provider, subject, groups).await;
        (person, page)
    }

    /// Lets a client of assistants list its tools.
    async fn list_tools(&self, key: &str) -> StatusCode {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let request =
            self.world.request(Method::POST, "/mcp", key).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        self.world.send(request.body(list.to_string())).await.status
    }

    /// Connects an account of Slack to the key of the only person, as the page of the link does.
    async fn connect_slack(&self) {
        let statements = [
            "INSERT INTO slack_apps (tenant, id, team, channel, sealed_token, sealed_signing_secret, reports, since,
                                     next_look_at, changed_at)
             VALUES ('acme', gen_random_uuid(), 'T1', 'C1', '', '', 1, now(), now() + interval '1 day', now())
             ON CONFLICT DO NOTHING",
            "INSERT INTO slack_people (tenant, team, slack_user, key_id, name, ends_at)
             SELECT 'acme', 'T1', 'U1', key_id, 'Robin Ito', now() + interval '1 day' FROM people",
        ];
        for statement in statements {
            self.world.execute(statement).await;
        }
    }

    /// Returns true if a button of Slack acts as an account.
    async fn has_slack_account(&self) -> bool {
        let mut tx = self.world.store.tenant(&tenant_id("acme")).await.unwrap();
        unslide_chat::store::find_person(&mut tx, "T1", "U1").await.unwrap().is_some()
    }
}

fn user_id(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

/// Makes a key on the page of keys, and returns its text.
async fn make_key(person: &mut Person<'_>, name: &str, scope: &str) -> String {
    let made = person.send_form("/console/keys", &[("name", name), ("scope", scope)]).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let mut texts = made.text.split("unslide_").skip(1).filter_map(|rest| rest.get(..49));
    let text = texts.find(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    format!("unslide_{}", text.unwrap())
}

#[tokio::test]
async fn a_deactivated_person_passes_no_door_until_they_are_active_again() {
    let office = Office::open(json!({})).await;
    let user = office.add_user("robin").await;
    let (mut robin, page) = office.sign_in("robin", &["crash-team", "leads"]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let reader = make_key(&mut robin, "assistant", "reports:read").await;
    let administrator = make_key(&mut robin, "automation", "tenant:admin").await;
    let new = json!({"name": "child", "scopes": ["tenant:admin"]});
    let child = office.world.post_json("/v1/keys", &administrator, &new).await.expect_status(201);
    let child = child["text"].as_str().unwrap();
    office.connect_slack().await;
    // Each door is open.
    assert!(!robin.is_signed_out().await && office.has_slack_account().await);
    office.world.get("/v1/reports", &reader).await.expect_status(200);
    office.world.get("/v1/keys", child).await.expect_status(200);
    assert_eq!(office.list_tools(&reader).await, StatusCode::OK);
    office.set_active(&user, false).await;
    // Console, API, assistants and chat, in the request after the change.
    assert!(robin.is_signed_out().await);
    for key in [&reader, &administrator, child] {
        office.world.get("/v1/key", key).await.expect_problem(401, "unauthorized");
    }
    assert_eq!(office.list_tools(&reader).await, StatusCode::UNAUTHORIZED);
    assert!(!office.has_slack_account().await);
    let (mut again, page) = office.sign_in("robin", &["crash-team", "leads"]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.text.contains("is not active"), "{}", page.text);
    assert!(again.is_signed_out().await);
    let state = office.world.get("/v1/sign-in", &office.admin).await.expect_status(200);
    assert_eq!(state["failures"][0]["outcome"], "deactivated");
    let log = office.world.get("/v1/audit-log", &office.admin).await.expect_status(200);
    let revoked = log["items"].as_array().unwrap().iter().filter(|entry| entry["action"] == "key.revoke");
    let by: Vec<&str> = revoked.map(|entry| entry["actor"].as_str().unwrap()).collect();
    assert!(by.len() == 4 && by.iter().all(|actor| actor.starts_with("SCIM token ")), "{by:?}");
    // Active again: the person signs in with the same key, and makes new keys.
    office.set_active(&user, true).await;
    let (mut robin, page) = office.sign_in("robin", &["crash-team", "leads"]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(!robin.is_signed_out().await);
    assert_eq!(office.world.number("SELECT count(*) FROM keys WHERE name = 'Robin Ito'").await, 1);
    office.world.get("/v1/key", &reader).await.expect_problem(401, "unauthorized");
    office.world.stop().await;
}

#[tokio::test]
async fn a_person_who_is_deleted_or_inactive_before_the_first_sign_in_is_refused() {
    let office = Office::open(json!({})).await;
    let user = office.add_user("robin").await;
    office.set_active(&user, false).await;
    let (_, page) = office.sign_in("robin", &["crash-team"]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.text);
    let kim = office.add_user("kim").await;
    let (mut person, page) = office.sign_in("kim", &["crash-team"]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    office.send(Method::DELETE, &kim, &Value::Null).await;
    assert!(person.is_signed_out().await);
    let (_, page) = office.sign_in("kim", &["crash-team"]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.text);
    // The provider sends the person again.
    office.add_user("kim").await;
    assert_eq!(office.sign_in("kim", &["crash-team"]).await.1.status, StatusCode::OK);
    // A person whom the directory does not have signs in by the groups of the token.
    assert_eq!(office.sign_in("sam", &["crash-team"]).await.1.status, StatusCode::OK);
    office.world.stop().await;
}

#[tokio::test]
async fn okta_deactivates_with_a_whole_user_without_the_id() {
    let office = Office::open(json!({})).await;
    let user = office.add_user("robin").await;
    let (mut robin, _) = office.sign_in("robin", &["crash-team"]).await;
    let whole = |is_active: bool| json!({"userName": "robin@example.com", "active": is_active, "groups": []});
    office.send(Method::PUT, &user, &whole(true)).await;
    assert!(!robin.is_signed_out().await, "a change of other attributes ends nothing");
    office.send(Method::PUT, &user, &whole(false)).await;
    assert!(robin.is_signed_out().await);
    assert_eq!(office.sign_in("robin", &["crash-team"]).await.1.status, StatusCode::FORBIDDEN);
    office.send(Method::PUT, &user, &whole(true)).await;
    assert_eq!(office.sign_in("robin", &["crash-team"]).await.1.status, StatusCode::OK);
    office.world.stop().await;
}

#[tokio::test]
async fn others_stay_when_the_person_leaves_who_set_the_provider() {
    let office = Office::open(json!({})).await;
    let user = office.add_user("robin").await;
    let (mut robin, _) = office.sign_in("robin", &["crash-team", "leads"]).await;
    // Robin's key sets the provider again, and makes the keys of people from then on.
    office.world.execute("UPDATE sign_in_providers SET set_by = (SELECT key_id FROM people)").await;
    let (mut kim, page) = office.sign_in("kim", &["leads"]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let of_kim = make_key(&mut kim, "nightly", "tenant:admin").await;
    let of_robin = make_key(&mut robin, "weekly", "tenant:admin").await;
    office.set_active(&user, false).await;
    assert!(robin.is_signed_out().await);
    office.world.get("/v1/key", &of_robin).await.expect_problem(401, "unauthorized");
    assert_eq!(kim.open_page("/console/keys").await.status, StatusCode::OK);
    office.world.get("/v1/key", &of_kim).await.expect_status(200);
    assert_eq!(office.sign_in("sam", &["crash-team"]).await.1.status, StatusCode::OK);
    office.world.stop().await;
}

#[tokio::test]
async fn a_user_is_the_person_of_the_claim_and_of_no_address_of_mail() {
    let office = Office::open(json!({"directory_claim": "oid"})).await;
    let user = office.add_user("0b5c").await;
    let sign_in = async |subject: &'static str, oid: Value| {
        let mut person = Person::new(&office.world, "acme");
        let page = person
            .sign_in_with(&office.provider, subject, &["crash-team"], |token| token.claims["oid"] = oid)
            .await;
        (person, page)
    };
    let (mut robin, _) = sign_in("robin", json!("0b5c")).await;
    // The subject of this person is the id of the user, and so is their name at the provider; the claim is not.
    let (mut other, _) = sign_in("0b5c", json!("77aa")).await;
    assert!(!robin.is_signed_out().await && !other.is_signed_out().await);
    office.set_active(&user, false).await;
    assert!(robin.is_signed_out().await);
    assert!(!other.is_signed_out().await);
    // Without the claim nobody knows whether the person has left.
    let (_, page) = sign_in("robin", Value::Null).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.text.contains("no claim oid"), "{}", page.text);
    // Another tenant with the same provider is not concerned.
    let umbrella = office.world.create_master_key("umbrella").await;
    put_settings(&office.world, &umbrella, &settings_for(&office.provider)).await.expect_status(200);
    let mut elsewhere = Person::new(&office.world, "umbrella");
    let page = elsewhere.sign_in(&office.provider, "0b5c", &["crash-team"]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    office.world.stop().await;
}

#[tokio::test]
async fn a_user_who_gets_the_id_of_another_person_takes_the_access_of_the_former_one_away() {
    let office = Office::open(json!({})).await;
    let user = office.add_user("robin").await;
    let (mut robin, _) = office.sign_in("robin", &["crash-team"]).await;
    let change = json!({"Operations": [{"op": "Replace", "path": "externalId", "value": "robin-2"}]});
    office.send(Method::PATCH, &user, &change).await;
    assert!(robin.is_signed_out().await);
    office.world.stop().await;
}

#[tokio::test]
async fn groups_of_the_directory_decide_the_scopes_of_open_sessions() {
    let office = Office::open(json!({"directory_groups": true})).await;
    let user = office.add_user("robin").await;
    let team = office.add_group("crash-team", &[&user]).await;
    let leads = office.add_group("leads", &[]).await;
    // The groups of the token give nothing.
    let (mut robin, page) = office.sign_in("robin", &["leads"]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let keys = "/console/keys";
    assert_eq!(robin.open_page(keys).await.status, StatusCode::FORBIDDEN);
    office.change_member(&leads, "Add", &user).await;
    assert_eq!(robin.open_page(keys).await.status, StatusCode::OK);
    office.change_member(&leads, "Remove", &user).await;
    assert_eq!(robin.open_page(keys).await.status, StatusCode::FORBIDDEN);
    // Another name of a group gives the scopes of that name.
    let rename = |name: &str| json!({"Operations": [{"op": "replace", "value": {"displayName": name}}]});
    office.send(Method::DELETE, &leads, &Value::Null).await;
    office.send(Method::PATCH, &team, &rename("leads")).await;
    assert_eq!(robin.open_page(keys).await.status, StatusCode::OK);
    // Without a group that gives scopes the session ends.
    office.send(Method::PATCH, &team, &rename("visitors")).await;
    assert!(robin.is_signed_out().await);
    let (_, page) = office.sign_in("robin", &["crash-team", "leads"]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    // A person whom the directory does not have gets in by no group of the token.
    let (_, page) = office.sign_in("kim", &["crash-team", "leads"]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.text.contains("has not sent your account"), "{}", page.text);
    office.send(Method::PATCH, &team, &rename("crash-team")).await;
    let (mut robin, page) = office.sign_in("robin", &[]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    // The groups of the token decide again if the settings say so.
    office.set_provider(json!({})).await.expect_status(200);
    assert!(robin.is_signed_out().await);
    assert_eq!(office.sign_in("robin", &[]).await.1.status, StatusCode::FORBIDDEN);
    office.world.stop().await;
}
