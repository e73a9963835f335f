//! Codes and tokens in the wrong hands: each check refuses one of them.

use crate::mcp::assistant::{
    Assistant, SERVICE, Tokens, expect_refusal, message_status, person_key, register, send_form,
    start_with_sign_in,
};
use serde_json::json;
use unslide_world::Browser;

#[tokio::test]
async fn a_code_counts_for_its_client_verifier_address_and_resource_only() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    let code = assistant.get_code(&browser, false).await;
    let other = json!({"client_name": "Other", "redirect_uris": [assistant.redirect]});
    let other = register(&world, &other).await.expect_status(201);
    let other = other["client_id"].as_str().unwrap();
    let (elsewhere, any) = (format!("{SERVICE}/mcp/umbrella"), format!("{SERVICE}/mcp"));
    for (field, value, error) in [
        ("code_verifier", "b".repeat(43).as_str(), "invalid_grant"),
        ("code_verifier", "", "invalid_request"),
        ("redirect_uri", "http://127.0.0.1:7778/callback", "invalid_grant"),
        ("redirect_uri", "", "invalid_request"),
        ("client_id", other, "invalid_grant"),
        ("client_id", "", "invalid_request"),
        ("resource", &elsewhere, "invalid_target"),
        ("resource", &any, "invalid_target"),
        ("resource", "https://evil.example/mcp", "invalid_target"),
        ("grant_type", "password", "unsupported_grant_type"),
        ("grant_type", "refresh_token", "invalid_request"),
        ("code", &code.replace("acme", "umbrella"), "invalid_grant"),
        ("code", "", "invalid_request"),
    ] {
        let refused = assistant.exchange_with(&code, &[(field, value)]).await;
        assert_eq!(refused.status, 400, "{field}={value}: {}", refused.text);
        expect_refusal(refused, error);
    }
    let twice = [
        ("client_id", assistant.id.as_str()),
        ("client_id", other),
        ("grant_type", "authorization_code"),
        ("code", &code),
    ];
    expect_refusal(send_form(&world, "/oauth/token", &twice).await, "invalid_request");
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants WHERE access_hash IS NOT NULL").await, 0);
    let tokens = Tokens::read(assistant.exchange(&code).await);
    assert_eq!(message_status(&world, &tokens.access).await, 200);
    world.stop().await;
}

#[tokio::test]
async fn a_verifier_of_another_length_than_the_protocols_is_refused() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let mut assistant = Assistant::register(&world).await;
    for length in [42, 129] {
        assistant.verifier = "a".repeat(length);
        let code = assistant.get_code(&browser, false).await;
        expect_refusal(assistant.exchange(&code).await, "invalid_grant");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_code_that_is_used_twice_ends_the_access_and_an_old_one_gives_none() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    let code = assistant.get_code(&browser, false).await;
    let tokens = Tokens::read(assistant.exchange(&code).await);
    assert_eq!(message_status(&world, &tokens.access).await, 200);
    expect_refusal(assistant.exchange(&code).await, "invalid_grant");
    assert_eq!(message_status(&world, &tokens.access).await, 401);
    expect_refusal(assistant.refresh(&tokens.refresh).await, "invalid_grant");
    assert_eq!(world.number("SELECT count(*) FROM audit_log WHERE action = 'mcp.replay'").await, 1);
    let code = assistant.get_code(&browser, false).await;
    let seconds = "SELECT extract(epoch FROM max(code_ends_at - created_at))::bigint FROM mcp_grants";
    assert_eq!(world.number(seconds).await, 60);
    world.execute("UPDATE mcp_grants SET code_ends_at = now() - interval '1 second'").await;
    expect_refusal(assistant.exchange(&code).await, "invalid_grant");
    world.stop().await;
}

#[tokio::test]
async fn a_refresh_token_counts_once_and_one_that_was_replaced_ends_the_access() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    let first = assistant.get_tokens(&browser, false).await;
    let second = Tokens::read(assistant.refresh(&first.refresh).await);
    assert_eq!(message_status(&world, &first.access).await, 401, "a refresh replaces both tokens");
    assert_eq!(message_status(&world, &second.access).await, 200);
    let days = "SELECT extract(epoch FROM max(ends_at - created_at))::bigint / 86400 FROM mcp_grants";
    assert_eq!(world.number(days).await, 30, "a refresh makes the access no longer");
    let hour = "SELECT extract(epoch FROM max(access_ends_at - renewed_at))::bigint FROM mcp_grants";
    assert_eq!(world.number(hour).await, 3_600);
    // Another client, another resource, and the access token are no reason to end it.
    let fields = |client: &'static str, token: &str| {
        [
            ("grant_type", "refresh_token".to_owned()),
            ("client_id", client.to_owned()),
            ("refresh_token", token.to_owned()),
        ]
    };
    let send = async |fields: [(&str, String); 3]| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        send_form(&world, "/oauth/token", &fields).await
    };
    expect_refusal(send(fields("other", &second.refresh)).await, "invalid_grant");
    expect_refusal(send(fields("other", &second.access)).await, "invalid_grant");
    assert_eq!(message_status(&world, &second.access).await, 200);
    let third = Tokens::read(assistant.refresh(&second.refresh).await);
    // The first one of the family comes back.
    expect_refusal(assistant.refresh(&first.refresh).await, "invalid_grant");
    assert_eq!(message_status(&world, &third.access).await, 401);
    expect_refusal(assistant.refresh(&third.refresh).await, "invalid_grant");
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0);
    // An access token ends after its hour, and all of it after 30 days.
    let tokens = assistant.get_tokens(&browser, false).await;
    world.execute("UPDATE mcp_grants SET access_ends_at = now() - interval '1 second'").await;
    assert_eq!(message_status(&world, &tokens.access).await, 401);
    let tokens = Tokens::read(assistant.refresh(&tokens.refresh).await);
    world.execute("UPDATE mcp_grants SET ends_at = now() - interval '1 second'").await;
    assert_eq!(message_status(&world, &tokens.access).await, 401);
    expect_refusal(assistant.refresh(&tokens.refresh).await, "invalid_grant");
    world.stop().await;
}

#[tokio::test]
async fn two_exchanges_of_one_code_at_once_leave_no_access() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    let code = assistant.get_code(&browser, false).await;
    let both = futures::join!(assistant.exchange(&code), assistant.exchange(&code));
    let statuses = [both.0.status.as_u16(), both.1.status.as_u16()];
    assert_eq!(statuses.iter().sum::<u16>(), 600, "one of them: {statuses:?}");
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn no_text_of_a_code_or_token_is_stored() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    let code = assistant.get_code(&browser, false).await;
    let tokens = Tokens::read(assistant.exchange(&code).await);
    let rows = world.text("SELECT string_agg(g::text, ' ') FROM mcp_grants g").await;
    for text in [code, tokens.access, tokens.refresh] {
        let digits = text.rsplit('.').next().unwrap();
        for half in [digits.get(..64).unwrap(), digits.get(digits.len() - 64..).unwrap()] {
            assert!(!rows.contains(half), "{half} in {rows}");
        }
    }
    world.stop().await;
}
