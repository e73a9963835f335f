//! Settings of a tenant's provider.

use crate::people::person::{Person, put_settings, settings_for, start_world};
use crate::people::provider::Provider;
use reqwest::StatusCode;
use serde_json::{Value, json};
use unslide_model::Scope;

#[tokio::test]
async fn a_provider_is_refused_that_may_not_be_reached_or_gives_more_than_its_key_may() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    let set = async |key: &str, change: &dyn Fn(&mut Value)| {
        let mut body = settings_for(&provider);
        change(&mut body);
        put_settings(&world, key, &body).await
    };
    let operator =
        set(&admin, &|body| body["rules"][0] = json!({"group": "a", "scopes": ["operator"]})).await;
    assert!(operator.expect_problem(400, "invalid-body").contains("no rule gives the scope operator"));
    let private = set(&admin, &|body| body["issuer"] = "https://10.0.0.1".into()).await;
    assert!(private.expect_problem(400, "invalid-body").contains("api.sign_in.networks"));
    let plain = set(&admin, &|body| body["issuer"] = "ftp://login.example.com".into()).await;
    assert!(plain.expect_problem(400, "invalid-body").contains("https://"));
    let lacking = world.create_key("acme", &[Scope::TenantAdmin]).await;
    set(&lacking, &|_| {}).await.expect_problem(403, "insufficient-scope");
    let limited = world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await;
    set(&limited, &|_| {}).await.expect_problem(403, "insufficient-scope");
    assert!(world.get("/v1/sign-in", &admin).await.expect_status(200)["provider"].is_null());
    let mut robin = Person::new(&world, "acme");
    assert_eq!(robin.open_page("/console/sso/acme").await.status, StatusCode::NOT_FOUND);
    assert_eq!(robin.open_page("/console/sso/unknown").await.status, StatusCode::NOT_FOUND);
    assert!(robin.open_page("/console/sso?tenant=acme").await.text.contains("url=/console/sso/acme"));
    assert!(robin.open_page("/console/sign-in").await.text.contains("href=\"/console/sso\""));
    world.stop().await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_read_is_set_by_force_only_and_named_as_a_problem() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    let people = async || world.get("/v1/people", &admin).await.expect_status(200)["items"].clone();
    let before = people().await;
    let mut body = settings_for(&provider);
    // The document names another issuer, as after a slash too many.
    body["issuer"] = format!("http://localhost:{}", provider.port).into();
    body["client_secret"] = "s3cret".into();
    let refused = put_settings(&world, &admin, &body).await.expect_problem(400, "invalid-body");
    assert!(refused.contains("another issuer") && refused.contains("force"), "{refused}");
    assert!(!robin.is_signed_out().await, "nothing has changed");
    body["force"] = true.into();
    let set = put_settings(&world, &admin, &body).await.expect_status(200);
    let problem = set["problem"].as_str().unwrap();
    assert!(problem.contains("issuer"), "{problem}");
    assert_eq!(set["provider"]["has_client_secret"], true);
    assert!(!set.to_string().contains("s3cret"));
    let failed = Person::new(&world, "acme").open_page("/console/sso/acme").await;
    assert_eq!(failed.status, StatusCode::BAD_GATEWAY, "{}", failed.text);
    // Another client has no secret of the one before; the same client keeps it.
    body.as_object_mut().unwrap().remove("client_secret");
    let kept = put_settings(&world, &admin, &body).await.expect_status(200);
    assert_eq!(kept["provider"]["has_client_secret"], true);
    body["client_id"] = "another".into();
    let changed = put_settings(&world, &admin, &body).await.expect_status(200);
    assert_eq!(changed["provider"]["has_client_secret"], false);
    // The people stay listed, as revoked. Put right, each comes back with the same key.
    assert!(robin.is_signed_out().await);
    let retired = people().await;
    assert!(retired[0]["revoked_at"].is_string(), "{retired}");
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    assert!(!robin.is_signed_out().await);
    let after = people().await;
    assert_eq!((&after[0]["key_id"], after.as_array().unwrap().len()), (&before[0]["key_id"], 1));
    assert!(after[0]["revoked_at"].is_null(), "{after}");
    // A key that an administrator revoked does not come back.
    let id = after[0]["key_id"].as_str().unwrap().to_owned();
    world.delete(&format!("/v1/keys/{id}"), &admin).await.expect_status(200);
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    assert_ne!(people().await[0]["key_id"], *id);
    world.stop().await;
}

#[tokio::test]
async fn scopes_are_requested_as_set_or_fewer_after_a_refusal() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    let mut asked = robin.begin_sign_in(&provider).await;
    for scopes in ["openid profile groups", "openid profile", "openid"] {
        assert_eq!(asked["scope"], scopes);
        let refused = format!("/console/sso/acme/callback?error=invalid_scope&state={}", asked["state"]);
        let again = robin.open_page(&refused).await;
        if scopes == "openid" {
            assert_eq!(again.status, StatusCode::FORBIDDEN, "nothing is left to leave out");
            assert!(again.text.contains("invalid_scope") && again.text.contains("--scope"), "{}", again.text);
            break;
        }
        let url = reqwest::Url::parse(&again.location).unwrap();
        asked = url.query_pairs().into_owned().collect();
    }
    provider.expect_code(provider.token_for(&asked, "robin", &["crash-team"]));
    assert_eq!(robin.return_with_code(&asked["state"]).await.status, StatusCode::OK);
    // Another sign-in is not affected: a stranger can claim such a refusal in their own browser.
    assert_eq!(Person::new(&world, "acme").begin_sign_in(&provider).await["scope"], "openid profile groups");
    let mut body = settings_for(&provider);
    body["scopes"] = json!(["openid", "roles"]);
    let set = put_settings(&world, &admin, &body).await.expect_status(200);
    assert_eq!(set["provider"]["scopes"], json!(["openid", "roles"]));
    let mut kim = Person::new(&world, "acme");
    let asked = kim.begin_sign_in(&provider).await;
    assert_eq!(asked["scope"], "openid roles");
    let refused = format!("/console/sso/acme/callback?error=invalid_scope&state={}", asked["state"]);
    assert_eq!(kim.open_page(&refused).await.status, StatusCode::FORBIDDEN);
    world.stop().await;
}

#[tokio::test]
async fn a_provider_whose_pages_are_no_web_pages_is_refused() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    for page in
        ["javascript:alert(1)", "data:text/html,x", "http://login.example.com/authorize", "/authorize"]
    {
        provider.change_document(json!({"authorization_endpoint": page}));
        let refused = put_settings(&world, &admin, &settings_for(&provider)).await;
        let detail = refused.expect_problem(400, "invalid-body");
        assert!(detail.contains("authorization_endpoint"), "{page}: {detail}");
    }
    provider.change_document(json!({"id_token_signing_alg_values_supported": ["ES512"]}));
    let refused = put_settings(&world, &admin, &settings_for(&provider)).await;
    assert!(refused.expect_problem(400, "invalid-body").contains("ES512"));
    // Pages of browsers may be in a network that this service does not reach. A page to sign out at is left out if it is odd.
    provider.change_document(json!({"authorization_endpoint": "https://login.intranet.example/authorize",
        "end_session_endpoint": "javascript:alert(1)"}));
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let signed_out = Person::new(&world, "acme").open_page("/console/sso/acme/signed-out").await;
    assert!(
        signed_out.status == StatusCode::OK && !signed_out.text.contains("javascript:"),
        "{}",
        signed_out.text
    );
    world.stop().await;
}
