//! Answers of providers that sign no one in.

use crate::people::person::{Person, put_settings, settings_for, start_world};
use crate::people::provider::{NextToken, Provider, Signing};
use reqwest::StatusCode;
use serde_json::json;

/// A change of a valid token.
type TokenChange = Box<dyn Fn(&mut NextToken)>;

/// Returns a time after the token's own.
fn ahead(token: &NextToken, seconds: i64) -> serde_json::Value {
    (token.claims["iat"].as_i64().unwrap() + seconds).into()
}

fn without_claim(claim: &'static str) -> TokenChange {
    Box::new(move |token| {
        token.claims.as_object_mut().unwrap().remove(claim);
    })
}

#[tokio::test]
async fn a_token_is_refused_unless_it_is_signed_for_this_sign_in() {
    let (provider, other) = (Provider::start().await, Provider::start().await);
    let world = start_world(&[&provider, &other]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let foreign = world.create_master_key("umbrella").await;
    put_settings(&world, &foreign, &settings_for(&other)).await.expect_status(200);
    let issuer = other.issuer.clone();
    let changes: [(&str, TokenChange); 20] = [
        ("a key that is not published", Box::new(|token| token.signing = Signing::Foreign)),
        ("no signature", Box::new(|token| token.signing = Signing::Unsigned)),
        ("the public key as a secret", Box::new(|token| token.signing = Signing::PublicKeyAsSecret)),
        ("another nonce", Box::new(|token| token.claims["nonce"] = "n".into())),
        ("no nonce", without_claim("nonce")),
        ("another audience", Box::new(|token| token.claims["aud"] = "another".into())),
        ("a second audience", Box::new(|token| token.claims["aud"] = json!(["unslide", "another"]))),
        (
            "a second audience for another client",
            Box::new(|token| {
                token.claims["aud"] = json!(["unslide", "another"]);
                token.claims["azp"] = "another".into();
            }),
        ),
        ("one audience for another client", Box::new(|token| token.claims["azp"] = "another".into())),
        ("issued in an hour", Box::new(|token| token.claims["iat"] = ahead(token, 3_600))),
        ("valid in an hour", Box::new(|token| token.claims["nbf"] = ahead(token, 3_600))),
        ("an end of another type", Box::new(|token| token.claims["exp"] = "tomorrow".into())),
        ("a subject with a NUL", Box::new(|token| token.claims["sub"] = "a\0b".into())),
        ("a subject of 256 characters", Box::new(|token| token.claims["sub"] = "a".repeat(256).into())),
        ("an empty subject", Box::new(|token| token.claims["sub"] = "".into())),
        ("an expired token", Box::new(|token| token.claims["exp"] = 1.into())),
        ("a token without an end", without_claim("exp")),
        ("the issuer of another tenant", Box::new(move |token| token.claims["iss"] = issuer.as_str().into())),
        ("no issuer", without_claim("iss")),
        ("no subject", without_claim("sub")),
    ];
    let mut robin = Person::new(&world, "acme");
    for (what, change) in changes {
        let refused = robin.sign_in_with(&provider, "robin", &["crash-team"], change).await;
        let is_refusal = [StatusCode::FORBIDDEN, StatusCode::BAD_GATEWAY].contains(&refused.status);
        assert!(is_refusal && refused.text.contains("Not signed in"), "{what}: {}", refused.text);
    }
    assert!(robin.is_signed_out().await);
    assert_eq!(world.number("SELECT count(*) FROM people").await, 0);
    let opened = robin.sign_in(&provider, "robin", &["crash-team"]).await;
    assert_eq!(opened.status, StatusCode::OK, "the same without a change: {}", opened.text);
    world.stop().await;
}

#[tokio::test]
async fn an_answer_is_refused_in_another_browser_at_another_tenant_and_the_second_time() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    for tenant in ["acme", "umbrella"] {
        let admin = world.create_master_key(tenant).await;
        put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    }
    let mut robin = Person::new(&world, "acme");
    let asked = robin.begin_sign_in(&provider).await;
    provider.expect_code(provider.token_for(&asked, "robin", &["crash-team"]));
    let mut other = Person::new(&world, "acme");
    assert_eq!(other.return_with_code(&asked["state"]).await.status, StatusCode::BAD_REQUEST, "no cookie");
    other.begin_sign_in(&provider).await;
    assert_eq!(other.return_with_code(&asked["state"]).await.status, StatusCode::BAD_REQUEST);
    let elsewhere = format!("/console/sso/umbrella/callback?code=c1&state={}", asked["state"]);
    assert_eq!(robin.open_page(&elsewhere).await.status, StatusCode::BAD_REQUEST, "another tenant");
    let named =
        format!("/console/sso/acme/callback?code=c1&state={}&iss=https://evil.example", asked["state"]);
    assert_eq!(robin.open_page(&named).await.status, StatusCode::BAD_REQUEST, "another issuer");
    let declined = format!("/console/sso/acme/callback?error=access_denied&state={}", asked["state"]);
    assert_eq!(robin.open_page(&declined).await.status, StatusCode::FORBIDDEN);
    assert_eq!(robin.return_with_code(&asked["state"]).await.status, StatusCode::OK);
    // The cookie of the sign-in is gone: who is signed in is led to the console.
    assert_eq!(robin.return_with_code(&asked["state"]).await.location, "/console");
    robin.comes_from = "cross-site";
    let reloaded = robin.return_with_code(&asked["state"]).await;
    assert_eq!(reloaded.status, StatusCode::BAD_REQUEST, "{}", reloaded.text);
    assert!(reloaded.text.contains("url=/console/sso/acme/finished"), "{}", reloaded.text);
    robin.comes_from = "same-origin";
    assert_eq!(robin.open_page("/console/sso/acme/finished").await.location, "/console");
    let stranger = Person::new(&world, "acme").open_page("/console/sso/acme/finished").await;
    assert_eq!(stranger.status, StatusCode::BAD_REQUEST);
    robin.comes_from = "";
    let asked = robin.begin_sign_in(&provider).await;
    let replayed = robin.return_with_code(&asked["state"]).await;
    assert_eq!(replayed.status, StatusCode::BAD_GATEWAY, "the code was used: {}", replayed.text);
    assert_eq!(world.number("SELECT count(*) FROM people").await, 1);
    world.stop().await;
}

#[tokio::test]
async fn a_person_without_a_group_of_a_rule_is_refused_whatever_the_token_claims() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    let claim = |token: &mut NextToken| {
        token.claims["scopes"] = json!(["operator"]);
        token.claims["scope"] = "operator tenant:admin".into();
    };
    let refused = robin.sign_in_with(&provider, "robin", &["operator", "visitors"], claim).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.text.contains("None of your groups"), "{}", refused.text);
    assert!(robin.is_signed_out().await);
    let opened = robin.sign_in_with(&provider, "robin", &["operator", "leads"], claim).await;
    assert_eq!(opened.status, StatusCode::OK, "{}", opened.text);
    assert_eq!(robin.open_page("/console/tenants").await.status, StatusCode::FORBIDDEN);
    world.stop().await;
}
