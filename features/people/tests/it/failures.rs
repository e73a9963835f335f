//! Sign-ins that fail: the page, and the entry for administrators, say why and what to change.

use crate::people::person::{Person, put_settings, settings_for, start_world};
use crate::people::provider::{NextToken, Provider};
use reqwest::StatusCode;
use serde_json::{Value, json};
use unslide_world::World;

async fn read_failures(world: &World, admin: &str) -> Vec<Value> {
    let state = world.get("/v1/sign-in", admin).await.expect_status(200);
    state["failures"].as_array().cloned().unwrap_or_default()
}

/// A change of a valid token.
type TokenChange = fn(&mut NextToken);

#[tokio::test]
async fn a_person_without_scopes_learns_what_the_token_says_of_their_groups() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let changes: [(&str, TokenChange); 6] = [
        ("The token has no claim groups", |token| {
            token.claims.as_object_mut().unwrap().remove("groups");
        }),
        ("more groups than Microsoft Entra puts into a token", |token| {
            token.claims.as_object_mut().unwrap().remove("groups");
            token.claims["_claim_names"] = json!({"groups": "src1"});
        }),
        ("neither a text, a list of texts", |token| {
            token.claims["groups"] = json!({"roles": ["crash-team"]});
        }),
        ("is empty", |token| token.claims["groups"] = json!([])),
        ("no rule names visitors", |token| token.claims["groups"] = json!(["visitors"])),
        ("the rule must name /crash-team", |token| token.claims["groups"] = json!(["/other", "/crash-team"])),
    ];
    for (reason, change) in changes {
        let refused = Person::new(&world, "acme").sign_in_with(&provider, "robin", &[], change).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{reason}");
        assert!(refused.text.contains(reason), "{reason}: {}", refused.text);
        assert!(refused.text.contains("account=other"), "a way out of the wrong account");
        assert!(refused.text.contains(&format!("{}/logout?client_id=unslide", provider.issuer)));
        let failures = read_failures(&world, &admin).await;
        assert!(failures[0]["reason"].as_str().unwrap().contains(reason), "{reason}: {failures:?}");
        assert_eq!(
            (&failures[0]["outcome"], &failures[0]["subject"]),
            (&json!("no_scopes"), &json!("robin"))
        );
    }
    let many: Vec<String> = (0..40).map(|number| format!("team-{number:02}\u{202e}\n")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = Person::new(&world, "acme").sign_in(&provider, "robin", &many).await;
    assert!(refused.text.contains("and 30 more"), "{}", refused.text);
    assert_eq!(read_failures(&world, &admin).await.len(), 5, "the newest of each outcome");
    world.stop().await;
}

#[tokio::test]
async fn an_error_of_the_provider_is_shown_and_recorded() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    for (error, advice) in [
        ("access_denied", "declined"),
        ("temporarily_unavailable", "later"),
        ("login_required", "login_required"),
        ("unauthorized_client", "authorization code flow"),
    ] {
        let asked = robin.begin_with(&provider, "?next=/console/groups").await;
        let path = format!(
            "/console/sso/acme/callback?error={error}&error_description=because%0Aof%3Cb%3E&state={}",
            asked["state"]
        );
        let refused = robin.open_page(&path).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert!(refused.text.contains(error) && refused.text.contains(advice), "{}", refused.text);
        assert!(!refused.text.contains("<b>"), "{}", refused.text);
        assert!(refused.text.contains("/console/sso/acme?next=%2Fconsole%2Fgroups"), "{}", refused.text);
        let failures = read_failures(&world, &admin).await;
        assert_eq!(failures[0]["outcome"], "declined");
        assert!(failures[0]["reason"].as_str().unwrap().contains("because of"), "{failures:?}");
    }
    let refused = robin.sign_in_with(&provider, "robin", &["crash-team"], |token| {
        token.claims["aud"] = json!("another");
    });
    assert!(refused.await.text.contains("its audience is another"));
    let failures = read_failures(&world, &admin).await;
    assert_eq!(failures[0]["outcome"], "token_refused");
    // An answer that belongs to no sign-in is the act of any stranger: it pushes nothing out.
    robin.open_page("/console/sso/acme/callback?error=x&state=0").await;
    assert_eq!(read_failures(&world, &admin).await.len(), failures.len());
    world.stop().await;
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_not_asked_again_at_once() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    let asked = robin.begin_sign_in(&provider).await;
    let read = provider.documents_read();
    provider.expect_code(provider.token_for(&asked, "robin", &["crash-team"]));
    provider.set_silent(true);
    let waited = robin.return_with_code(&asked["state"]).await;
    assert_eq!(waited.status, StatusCode::BAD_GATEWAY, "{}", waited.text);
    assert!(waited.text.contains("does not answer"), "{}", waited.text);
    let next = Person::new(&world, "acme").open_page("/console/sso/acme").await;
    assert_eq!(next.status, StatusCode::BAD_GATEWAY, "{}", next.text);
    assert_eq!(provider.documents_read(), read, "the failure is remembered");
    let failures = read_failures(&world, &admin).await;
    assert!(!failures[0].to_string().contains(&provider.port.to_string()), "no address: {failures:?}");
    // The settings are set again once it answers, and the code was not spent.
    provider.set_silent(false);
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    assert_eq!(robin.return_with_code(&asked["state"]).await.status, StatusCode::OK);
    world.stop().await;
}
