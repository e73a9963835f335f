//! Access of people: scopes of their groups, names, and its end.

use crate::people::person::{Person, put_settings, settings_for, start_world};
use crate::people::provider::Provider;
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
        let names = keys["items"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap());
        let named: Vec<&str> = names.filter(|name| name.starts_with("Robin Ito")).collect();
        assert_eq!(named, ["Robin Ito", "Robin Ito (kim)"]);
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
    assert_eq!(world.number("SELECT count(*) FROM people WHERE retired_at IS NOT NULL").await, 1);
    assert!(find_key(&world, &admin, "Robin Ito").await["revoked_at"].is_string());
    with_key.fetch_page("/console/groups").await;
    world.stop().await;
}

/// A key of the tenant that leaked, and lets strangers in by a provider of its own.
#[tokio::test]
async fn a_leaked_key_that_is_revoked_with_what_it_made_lets_no_one_in() {
    let (provider, own) = (Provider::start().await, Provider::start().await);
    let world = start_world(&[&provider, &own]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&own)).await.expect_status(200);
    Person::new(&world, "acme").sign_in(&own, "kim", &["crash-team"]).await;
    let leaked = world.create_master_key("acme").await;
    put_settings(&world, &leaked, &settings_for(&provider)).await.expect_status(200);
    let setting = world.request(reqwest::Method::PUT, "/v1/person-search", &leaked);
    world.send(setting.json(&json!({"enabled": true}))).await.expect_status(200);
    let mut stranger = Person::new(&world, "acme");
    stranger.sign_in(&provider, "stranger", &["crash-team", "leads"]).await;
    let made = stranger.send_form("/console/keys", &[("name", "door"), ("scope", "reports:read")]).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let keys = world.get("/v1/keys", &admin).await.expect_status(200);
    let prefix = leaked.split('_').nth(1).unwrap();
    let root = keys["items"].as_array().unwrap().iter().find(|key| key["prefix"] == prefix).unwrap();
    let path = format!("/v1/keys/{}?cascade=true", root["id"].as_str().unwrap());
    let revoked = world.delete(&path, &admin).await.expect_status(200);
    assert_eq!(revoked["descendants_revoked"], 2, "the stranger's key, and the one that it made: {revoked}");
    assert_eq!(revoked["left"], json!([{"action": "person_search.set", "subjects": ["acme"], "more": 0}]));
    assert!(stranger.is_signed_out().await);
    assert!(find_key(&world, &admin, "door").await["revoked_at"].is_string());
    let again = stranger.open_page("/console/sso/acme").await;
    assert_eq!(again.status, StatusCode::NOT_FOUND, "the provider is gone: {}", again.text);
    let log = world.get("/v1/audit-log", &admin).await.expect_status(200);
    let removed = log["items"].as_array().unwrap().iter().find(|entry| entry["action"] == "sign_in.remove");
    assert_eq!(removed.unwrap()["subject"], provider.issuer);
    // A key that is revoked alone leaves its provider: keys of administrators change.
    put_settings(&world, &admin, &settings_for(&own)).await.expect_status(200);
    let before = world.create_master_key("acme").await;
    put_settings(&world, &before, &settings_for(&own)).await.expect_status(200);
    let keys = world.get("/v1/keys", &admin).await.expect_status(200);
    let prefix = before.split('_').nth(1).unwrap();
    let root = keys["items"].as_array().unwrap().iter().find(|key| key["prefix"] == prefix).unwrap();
    world.delete(&format!("/v1/keys/{}", root["id"].as_str().unwrap()), &admin).await.expect_status(200);
    let opened = Person::new(&world, "acme").sign_in(&own, "kim", &["crash-team"]).await;
    assert_eq!(opened.status, StatusCode::OK, "{}", opened.text);
    world.stop().await;
}

#[tokio::test]
async fn keys_of_people_who_are_long_away_are_retired_and_come_back() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    for subject in ["away", "maker", "lately"] {
        let mut person = Person::new(&world, "acme");
        person
            .sign_in_with(&provider, subject, &["crash-team", "leads"], |token| {
                token.claims["name"] = subject.into();
            })
            .await;
        if subject == "maker" {
            person.send_form("/console/keys", &[("name", "nightly"), ("scope", "reports:read")]).await;
        }
    }
    let away =
        "UPDATE people SET last_sign_in_at = last_sign_in_at - interval '91 days' WHERE subject <> 'lately'";
    world.execute(away).await;
    let away = find_key(&world, &admin, "away").await;
    Person::new(&world, "acme").sign_in(&provider, "new", &["crash-team"]).await;
    assert!(find_key(&world, &admin, "away").await["revoked_at"].is_string());
    for kept in ["maker", "lately"] {
        assert!(find_key(&world, &admin, kept).await["revoked_at"].is_null(), "{kept}");
    }
    let mut person = Person::new(&world, "acme");
    person
        .sign_in_with(&provider, "away", &["crash-team"], |token| token.claims["name"] = "back".into())
        .await;
    assert!(!person.is_signed_out().await);
    assert_eq!(find_key(&world, &admin, "back").await["id"], away["id"]);
    world.stop().await;
}
