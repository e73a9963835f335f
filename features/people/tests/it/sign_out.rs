//! The end of a session: at the console, and at the identity provider.

use crate::people::person::{Person, put_settings, settings_for, start_world};
use crate::people::provider::{CLIENT, Provider};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use unslide_model::{Clock, SystemClock};
use unslide_world::{World, encode_form};

/// The number of notices so far.
static NOTICES: AtomicUsize = AtomicUsize::new(1);
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Returns the claims of a valid notice.
fn notice(provider: &Provider, more: &Value) -> Value {
    let now = SystemClock.now().unix_timestamp();
    let mut claims = json!({"iss": provider.issuer, "aud": CLIENT, "iat": now, "exp": now + 120,
        "jti": NOTICES.fetch_add(1, Ordering::Relaxed).to_string(),
        "events": {EVENT: {}}});
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claims
}

async fn send_notice(world: &World, fields: &[(&str, &str)]) -> StatusCode {
    let request = Client::new().post(format!("{}/console/sso/acme/logout", world.url));
    request.body(encode_form(fields)).send().await.unwrap().status()
}

#[tokio::test]
async fn a_notice_of_the_provider_ends_the_sessions_that_it_names() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut people = Vec::new();
    for (subject, session) in
        [("robin", Some("s1")), ("robin", Some("s2")), ("robin", None), ("kim", Some("s3")), ("lee", None)]
    {
        let mut person = Person::new(&world, "acme");
        person
            .sign_in_with(&provider, subject, &["crash-team"], |token| {
                if let Some(session) = session {
                    token.claims["sid"] = session.into();
                }
            })
            .await;
        people.push(person);
    }
    let mut wrong = vec![
        notice(&provider, &json!({"sub": "robin", "events": {}})),
        notice(&provider, &json!({"sub": "robin", "nonce": "n"})),
        notice(&provider, &json!({"sub": "robin", "aud": "another"})),
        notice(&provider, &json!({"sub": "robin", "iss": "https://evil.example"})),
        notice(&provider, &json!({"sub": "robin", "exp": 1})),
        notice(&provider, &json!({})),
    ];
    wrong.push(
        json!({"iss": provider.issuer, "aud": CLIENT, "iat": 1, "events": {EVENT: {}}, "sub": "robin"}),
    );
    for claims in wrong {
        let token = provider.sign(&claims);
        let status = send_notice(&world, &[("logout_token", &token)]).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{claims}");
    }
    let token = provider.sign(&notice(&provider, &json!({"sub": "robin"})));
    let (signed, _) = token.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", "A".repeat(86));
    for fields in
        [&[("logout_token", forged.as_str())][..], &[("logout_token", "a.b.c")], &[("token", &token)], &[]]
    {
        assert_eq!(send_notice(&world, fields).await, StatusCode::BAD_REQUEST, "{fields:?}");
    }
    let mut ended = async |claims: &Value, expected: [bool; 5]| {
        let token = provider.sign(&notice(&provider, claims));
        assert_eq!(send_notice(&world, &[("logout_token", &token)]).await, StatusCode::OK, "{claims}");
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(people[index].is_signed_out().await, expected, "{claims}: person {index}");
        }
    };
    ended(&json!({"sid": "s1"}), [true, false, false, false, false]).await;
    // A session without an id may be the one that is named.
    ended(&json!({"sub": "robin", "sid": "s9"}), [true, false, true, false, false]).await;
    ended(&json!({"sub": "kim"}), [true, false, true, true, false]).await;
    ended(&json!({"sub": "nobody"}), [true, false, true, true, false]).await;
    ended(&json!({"sub": "robin"}), [true, true, true, true, false]).await;
    world.stop().await;
}

#[tokio::test]
async fn a_notice_ends_no_session_that_began_after_it() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    let claims = notice(&provider, &json!({"sub": "robin"}));
    let token = provider.sign(&claims);
    assert_eq!(send_notice(&world, &[("logout_token", &token)]).await, StatusCode::OK);
    assert!(robin.is_signed_out().await);
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    assert_eq!(send_notice(&world, &[("logout_token", &token)]).await, StatusCode::OK);
    assert!(!robin.is_signed_out().await, "the notice was taken once");
    let mut nameless = claims.clone();
    nameless.as_object_mut().unwrap().remove("jti");
    let token = provider.sign(&nameless);
    assert_eq!(send_notice(&world, &[("logout_token", &token)]).await, StatusCode::BAD_REQUEST);
    assert!(!robin.is_signed_out().await);
    world.stop().await;
}

#[tokio::test]
async fn after_a_sign_out_a_page_offers_to_leave_the_provider_or_to_choose_another_account() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    robin.sign_in(&provider, "robin", &["crash-team"]).await;
    let out = robin.send_form("/console/sign-out", &[]).await;
    assert_eq!(out.status, StatusCode::SEE_OTHER);
    assert!(out.location.starts_with("/console/sso/acme/signed-out?session="), "{}", out.location);
    assert!(robin.is_signed_out().await);
    let page = robin.open_page(&out.location).await;
    let link = format!("href=\"{}/logout?client_id=unslide", provider.issuer);
    let hinted = page.text.split(&link).nth(1).unwrap();
    let token = hinted.split("id_token_hint=").nth(1).unwrap().split('"').next().unwrap();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&claims).unwrap()["sub"], "robin");
    // The token is given once, and no other text brings one.
    for path in
        [out.location.as_str(), "/console/sso/acme/signed-out", "/console/sso/acme/signed-out?session=x"]
    {
        let page = robin.open_page(path).await;
        assert!(page.text.contains(&format!("{link}\"")), "{}", page.text);
    }
    assert!(page.text.contains("href=\"/console/sso/acme?account=other\""), "{}", page.text);
    assert_eq!(robin.begin_with(&provider, "?account=other").await["prompt"], "select_account");
    assert!(!robin.begin_sign_in(&provider).await.contains_key("prompt"));
    // The provider leads back only if its client knows the address.
    let mut returning = settings_for(&provider);
    returning["return_after_sign_out"] = true.into();
    let set = put_settings(&world, &admin, &returning).await.expect_status(200);
    assert_eq!(set["signed_out_path"], "/console/sso/acme/signed-out");
    let page = robin.open_page("/console/sso/acme/signed-out").await;
    let sent = reqwest::Url::parse(
        page.text
            .split("href=\"")
            .find_map(|rest| rest.starts_with(&provider.issuer).then(|| rest.split('"').next())?)
            .unwrap()
            .replace("&amp;", "&")
            .replace("&#38;", "&")
            .as_str(),
    )
    .unwrap();
    let return_to = sent.query_pairs().find(|(name, _)| name == "post_logout_redirect_uri").unwrap().1;
    assert_eq!(return_to, format!("{}/console/sso/acme/signed-out", world.url));
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    // A key's session ends on the sign-in page.
    let with_key = unslide_world::Browser::signed_in(&world, &admin).await;
    let out = with_key.post("/console/sign-out", String::new()).await;
    assert_eq!(unslide_world::redirect_location(&out), "/console/sign-in");
    // Keycloak takes no other prompt than a new sign-in.
    provider.change_document(json!({"prompt_values_supported": ["none", "login"]}));
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    assert_eq!(robin.begin_with(&provider, "?account=other").await["prompt"], "login");
    world.stop().await;
}
