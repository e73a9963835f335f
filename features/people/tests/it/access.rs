//! Access of people: scopes of their groups, names, and its end.

use crate::person::{Person, put_settings, settings_for, start_world};
use crate::provider::Provider;
use reqwest::StatusCode;
use serde_json::{Value, json};
use unslide_world::World;

async fn find_key(world: &World, admin: &str, name: &str) -> Value {
    let keys = world.get("/v1/keys", admin).await.expect_status(200);
    let found = keys["items"].as_array().unwrap().iter().find(|key| key["name"] == name);
    found.unwrap_or_else(|| panic!("no key {name} in {keys}")).clone()
}

#[tokio::test]
async fn a_person_signs_in_with_the_scopes_of_their_groups_and_is_named() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    let set = put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    assert_eq!(set["callback_path"], "/console/sso/acme/callback");
    assert_eq!((&set["provider"]["has_client_secret"], &set["problem"]), (&json!(false), &Value::Null));
    let mut robin = Person::new(&world, "acme");
    let asked = robin.begin_sign_in(&provider).await;
    assert_eq!((asked["code_challenge_method"].as_str(), asked["response_type"].as_str()), ("S256", "code"));
    assert_eq!(asked["scope"], "openid profile groups");
    let opened = robin.sign_in(&provider, "robin", &["crash-team", "leads", "operator"]).await;
    assert_eq!(opened.status, StatusCode::OK, "{}", opened.text);
    let page = robin.open_page("/console/keys").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("Robin Ito") && page.text.contains("this session"), "{}", page.text);
    let key = find_key(&world, &admin, "Robin Ito").await;
    let triager = json!(["symbols:read", "reports:read", "groups:write"]);
    let scopes = key["scopes"].as_array().unwrap();
    assert_eq!((&scopes[..3], &scopes[3]), (&triager.as_array().unwrap()[..], &json!("tenant:admin")));
    let log = world.get("/v1/audit-log", &admin).await.expect_status(200);
    let entry = |action: &str| {
        let found = log["items"].as_array().unwrap().iter().find(|entry| entry["action"] == action);
        found.unwrap_or_else(|| panic!("no {action} in {log}")).clone()
    };
    assert_eq!(entry("console.sign_in")["name"], "Robin Ito");
    assert_eq!(entry("sign_in.set")["subject"], provider.issuer);
    // The next sign-in has the groups of that day, the same key, and a new name.
    let opened = robin
        .sign_in_with(&provider, "robin", &["crash-team"], |token| token.claims["name"] = "R. Ito".into())
        .await;
    assert_eq!(opened.status, StatusCode::OK, "{}", opened.text);
    assert_eq!(robin.open_page("/console/keys").await.status, StatusCode::FORBIDDEN);
    let again = find_key(&world, &admin, "R. Ito").await;
    assert_eq!((&again["id"], &again["scopes"]), (&key["id"], &triager));
    assert_eq!(world.number("SELECT count(*) FROM people").await, 1);
    let hours = "SELECT extract(epoch FROM max(ends_at - created_at))::bigint / 3600 FROM console_sessions";
    assert_eq!(world.number(hours).await, 8);
    world.stop().await;
}

#[tokio::test]
async fn a_subject_is_the_person_whatever_the_address_of_mail_and_the_name() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let mut keys = Vec::new();
    for tenant in ["acme", "umbrella"] {
        let admin = world.create_master_key(tenant).await;
        put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
        for subject in ["robin", "kim"] {
            let opened = Person::new(&world, tenant).sign_in(&provider, subject, &["crash-team"]).await;
            assert_eq!(opened.status, StatusCode::OK, "{}", opened.text);
        }
        keys.push(world.get("/v1/keys", &admin).await.expect_status(200));
    }
    // The same name and address of mail, and one provider for both tenants.
    assert_eq!(world.number("SELECT count(DISTINCT key_id) FROM people").await, 4);
    for keys in keys {
        let named = keys["items"].as_array().unwrap().iter().filter(|key| key["name"] == "Robin Ito");
        assert_eq!(named.count(), 2, "{keys}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_revoked_person_loses_their_session_and_the_keys_that_they_made() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    robin.sign_in(&provider, "robin", &["crash-team", "leads"]).await;
    let form = [("name", "nightly"), ("scope", "reports:read")];
    let made = robin.send_form("/console/keys", &form).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let person = find_key(&world, &admin, "Robin Ito").await;
    let id = person["id"].as_str().unwrap();
    assert_eq!(find_key(&world, &admin, "nightly").await["made_by"], id);
    // Without the groups the session ends, and the key that was made is still listed.
    let refused = Person::new(&world, "acme").sign_in(&provider, "robin", &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert!(robin.is_signed_out().await);
    robin.sign_in(&provider, "robin", &["crash-team", "leads"]).await;
    assert!(!robin.is_signed_out().await);
    let revoked = world.delete(&format!("/v1/keys/{id}?cascade=true"), &admin).await.expect_status(200);
    assert_eq!(revoked["descendants_revoked"], 1);
    assert!(robin.is_signed_out().await);
    assert!(find_key(&world, &admin, "nightly").await["revoked_at"].is_string());
    // As long as the provider names the group, the person comes back, with a new key.
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    assert!(!robin.is_signed_out().await);
    assert_eq!(world.number("SELECT count(*) FROM people").await, 1);
    world.stop().await;
}

#[tokio::test]
async fn a_change_of_the_settings_ends_the_sessions_of_people_only() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let with_key = unslide_world::Browser::signed_in(&world, &admin).await;
    let mut robin = Person::new(&world, "acme");
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    assert!(!robin.is_signed_out().await);
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    assert!(robin.is_signed_out().await);
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    assert!(!robin.is_signed_out().await);
    world.delete("/v1/sign-in", &admin).await.expect_status(200);
    assert!(robin.is_signed_out().await);
    assert_eq!(world.number("SELECT count(*) FROM people").await, 0);
    assert!(find_key(&world, &admin, "Robin Ito").await["revoked_at"].is_string());
    with_key.fetch_page("/console/groups").await;
    world.stop().await;
}
