//! Tokens in the forms that products document. Claims that no sign-in needs have types that the protocol does not expect.

use crate::people::person::{Person, put_settings, settings_for, start_world};
use crate::people::provider::Provider;
use reqwest::StatusCode;
use serde_json::{Value, json};

#[tokio::test]
async fn people_sign_in_with_tokens_as_products_write_them() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    // Product, claim with groups, group, claims besides those of each token, name.
    let forms: [(&str, &str, &str, Value, &str); 7] = [
        (
            "Auth0",
            "https://crash.example.com/groups",
            "crash-team",
            json!({"sub": "auth0|5f7c8ec7c33c6c004bbafe82", "nickname": "robin", "name": "robin@example.com",
                "picture": "https://s.example/a.png", "updated_at": "2026-11-27T20:10:25.374Z", "email_verified": true,
                "birthdate": "0000-10-31", "sid": "3Wd2h1", "https://crash.example.com/groups": ["crash-team"]}),
            "robin@example.com",
        ),
        (
            "ZITADEL",
            "urn:zitadel:iam:org:project:roles",
            "crash-team",
            json!({"aud": ["246361787010646019@shop", "unslide", "246361787010646019"], "azp": "unslide",
                "client_id": "unslide", "amr": ["pwd", "mfa"], "auth_time": 1_764_000_000, "at_hash": "x",
                "sub": "246361787010646020", "preferred_username": "robin@acme.zitadel.cloud", "name": null,
                "urn:zitadel:iam:org:project:roles": {"crash-team": {"246361787010646018": "acme.zitadel.cloud"}}}),
            "robin@acme.zitadel.cloud",
        ),
        (
            "Microsoft Entra",
            "groups",
            "0760b6cf-170e-4a14-91b3-4b78e0739963",
            json!({"ver": "2.0", "oid": "00000000-0000-0000-66f3-3332eca7ea81", "rh": "0.AAA", "uti": "x", "aio": "Df2",
                "tid": "9122040d-6c67-4c5b-b112-36a304b66dad", "preferred_username": "robin@example.com",
                "sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "nbf": 1_764_000_000, "email": ["a", "b"],
                "groups": ["0760b6cf-170e-4a14-91b3-4b78e0739963"], "wids": ["b79fbf4d-3ef9-4689-8143-76b194e85509"]}),
            "Robin Ito",
        ),
        (
            "Microsoft Entra, app roles of a person in too many groups",
            "roles",
            "Crash.Triage",
            json!({"roles": ["Crash.Triage"], "_claim_names": {"groups": "src1"},
                "_claim_sources": {"src1": {"endpoint": "https://graph.example/users/x/getMemberObjects"}}}),
            "Robin Ito",
        ),
        (
            "Amazon Cognito",
            "cognito:groups",
            "crash-team",
            json!({"sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "cognito:groups": ["crash-team", "eu-west-1_x_Google"],
                "cognito:username": "robin", "token_use": "id", "event_id": "e", "origin_jti": "o", "name": null,
                "email_verified": "true", "phone_number_verified": "false", "updated_at": "1764000000",
                "identities": [{"userId": "1", "primary": "true"}], "address": "Main St", "cognito:roles": ["arn:aws:iam"]}),
            "robin",
        ),
        (
            "Keycloak, roles of a client",
            "resource_access.unslide.roles",
            "crash-team",
            json!({"typ": "ID", "sid": "5b1c", "acr": "1", "preferred_username": "robin", "azp": "unslide",
                "realm_access": {"roles": ["offline_access"]}, "resource_access": {"unslide": {"roles": ["crash-team"]}}}),
            "Robin Ito",
        ),
        (
            "numbers and sizes",
            "groups",
            "17",
            json!({"sub": 248_289_761_001_u64, "groups": (0..2_000).collect::<Vec<_>>(), "locale": ["en"], "zoneinfo": {},
                "phone_number": 7, "website": false, "profile": [], "email": {"a": 1}, "acr": 1, "amr": "pwd",
                "auth_time": "yesterday", "iat": "now", "nbf": null, "gender": 1, "azp": null}),
            "Robin Ito",
        ),
    ];
    for (product, claim, group, claims, name) in forms {
        let mut body = settings_for(&provider);
        body["group_claim"] = claim.into();
        body["rules"] = json!([{"group": group, "preset": "triager"}]);
        put_settings(&world, &admin, &body).await.expect_status(200);
        let mut robin = Person::new(&world, "acme");
        let opened = robin.sign_in_with(&provider, product, &[], |token| {
            token.claims.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        });
        let opened = opened.await;
        assert_eq!(opened.status, StatusCode::OK, "{product}: {}", opened.text);
        let page = robin.open_page("/console/groups").await;
        assert!(page.text.contains(name), "{product}: {}", page.text);
    }
    world.stop().await;
}

#[tokio::test]
async fn the_first_sign_in_after_a_change_of_keys_and_with_clocks_apart_works() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    assert_eq!(robin.sign_in(&provider, "robin", &["crash-team"]).await.status, StatusCode::OK);
    let asked = robin.begin_sign_in(&provider).await;
    provider.rotate_keys();
    provider.expect_code(provider.token_for(&asked, "robin", &["crash-team"]));
    let opened = robin.return_with_code(&asked["state"]).await;
    assert_eq!(opened.status, StatusCode::OK, "{}", opened.text);
    let apart = robin.sign_in_with(&provider, "robin", &["crash-team"], |token| {
        let now = token.claims["iat"].as_i64().unwrap();
        token.claims["iat"] = (now + 40).into();
        token.claims["nbf"] = json!(now as f64 + 40.5);
        token.claims["exp"] = (now - 20).into();
    });
    let apart = apart.await;
    assert_eq!(apart.status, StatusCode::OK, "{}", apart.text);
    world.stop().await;
}
