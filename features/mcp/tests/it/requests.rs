//! Requests for access and registrations that are wrong, and people who are not signed in.

use crate::mcp::assistant::{
    Assistant, REDIRECT, SERVICE, encode, expect_refusal, person_key, register, send_form, set_provider,
    start_with_sign_in, start_world,
};
use reqwest::Method;
use serde_json::json;
use unslide_mcp::Config;
use unslide_model::Scope;
use unslide_world::{Browser, encode_form, redirect_location};

#[tokio::test]
async fn nothing_is_offered_without_an_identity_provider() {
    let world = start_world(Config::default()).await;
    let documents = [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource/mcp/acme",
        "/.well-known/oauth-authorization-server",
    ];
    for path in documents {
        world.get(path, "").await.expect_problem(404, "not-found");
    }
    register(&world, &json!({"redirect_uris": [REDIRECT]})).await.expect_problem(404, "not-found");
    set_provider(&world, "acme").await;
    for path in documents {
        world.get(path, "").await.expect_status(200);
    }
    world
        .get("/.well-known/oauth-protected-resource/mcp/umbrella", "")
        .await
        .expect_problem(404, "not-found");
    let mut assistant = Assistant::register(&world).await;
    assistant.resource = format!("{SERVICE}/mcp");
    let umbrella = Browser::signed_in(&world, &person_key(&world, "umbrella").await).await;
    assert_eq!(umbrella.get(&assistant.consent_path()).await.status, 404);
    let page = umbrella.fetch_page("/console/assistants").await;
    assert!(page.contains("an API key"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn a_request_that_is_wrong_leads_nowhere() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    for (name, value) in [
        ("client_id", "registered.e30"),
        ("client_id", "someone"),
        ("client_id", "https://127.0.0.1/client.json"),
        ("client_id", "http://app.example.com/client.json"),
        ("redirect_uri", "https://evil.example/callback"),
        ("redirect_uri", "http://127.0.0.1:7777/other"),
        ("redirect_uri", "javascript:alert(1)"),
        ("response_type", "token"),
        ("code_challenge", ""),
        ("code_challenge", "short"),
        ("code_challenge_method", "plain"),
        ("code_challenge_method", ""),
        ("resource", ""),
        ("resource", "https://evil.example/mcp"),
        ("resource", "https://crashes.example.com/mcp/umbrella"),
        ("state", &"s".repeat(501)),
        ("scope", &"x".repeat(2_000)),
    ] {
        let mut parameters = assistant.parameters();
        parameters.insert(name, value.to_owned());
        let query = encode(&parameters);
        let shown = browser.get(&format!("/console/oauth/authorize?{query}")).await;
        assert_eq!(shown.status, 400, "{name}={value}: {}", shown.text);
        assert!(!shown.headers.contains_key("location"), "{name}={value}");
        assert!(!shown.text.contains("evil.example/") && !shown.text.contains("0;url"), "{}", shown.text);
        let form = encode_form(&[("request", &query), ("decision", "allow")]);
        let sent = browser.post("/console/oauth/authorize", form).await;
        assert_eq!(sent.status, 400, "{name}={value}: {}", sent.text);
        assert!(!sent.text.contains("0;url"), "{}", sent.text);
    }
    let query = encode(&assistant.parameters());
    let twice = format!("/console/oauth/authorize?{query}&redirect_uri=https%3A%2F%2Fevil.example%2F");
    assert_eq!(browser.get(&twice).await.status, 400);
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn only_the_page_itself_sends_the_decision_of_a_person_who_may_read() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    let query = encode(&assistant.parameters());
    let form = encode_form(&[("request", &query), ("decision", "allow")]);
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
    ] {
        let request = browser.request(Method::POST, "/console/oauth/authorize").header(name, value);
        let refused = browser.send(request.body(form.clone())).await;
        assert_eq!(refused.status, 400, "{name}: {value}: {}", refused.text);
    }
    let uploader = world.create_key("acme", &[Scope::SymbolsRead]).await;
    let uploader = Browser::signed_in(&world, &uploader).await;
    assert_eq!(uploader.get(&assistant.consent_path()).await.status, 403);
    assert_eq!(uploader.post("/console/oauth/authorize", form.clone()).await.status, 403);
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0);
    // A reader gives no more than they have.
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    let reader = Browser::signed_in(&world, &reader).await;
    assert!(!reader.fetch_page(&assistant.consent_path()).await.contains("Let it change groups"));
    assert_eq!(assistant.get_tokens(&reader, true).await.scope, "reports:read");
    world.stop().await;
}

#[tokio::test]
async fn a_person_who_is_not_signed_in_comes_back_after_the_sign_in() {
    let world = start_with_sign_in().await;
    let key = person_key(&world, "acme").await;
    let assistant = Assistant::register(&world).await;
    let mut browser = Browser::new(&world);
    let sent = browser.get(&assistant.consent_path()).await;
    let location = redirect_location(&sent).to_owned();
    let next = location.strip_prefix("/console/sign-in?").unwrap();
    let next =
        form_urlencoded::parse(next.as_bytes()).find(|(name, _)| name == "next").unwrap().1.into_owned();
    assert_eq!(next, assistant.consent_path());
    let answer = browser.sign_in(&key, &next).await;
    assert_eq!(redirect_location(&answer), assistant.consent_path());
    let cookie = answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    browser.cookie = cookie;
    browser.fetch_page(&next).await;
    // A post without a session is no consent.
    let form = encode_form(&[("request", &encode(&assistant.parameters())), ("decision", "allow")]);
    let refused = Browser::new(&world).post("/console/oauth/authorize", form).await;
    assert!(redirect_location(&refused).starts_with("/console/sign-in"));
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn registrations_are_small_and_fill_no_table() {
    let world = start_with_sign_in().await;
    for (body, error) in [
        (json!({"redirect_uris": []}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["http://evil.example/callback"]}), "invalid_redirect_uri"),
        (
            json!({"redirect_uris": ["https://app.example.com/".to_owned() + &"a".repeat(480)]}),
            "invalid_redirect_uri",
        ),
        (json!({"redirect_uris": vec![REDIRECT; 40]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": [REDIRECT], "client_name": "a".repeat(101)}), "invalid_client_metadata"),
        (
            json!({"redirect_uris": [REDIRECT], "grant_types": ["client_credentials"]}),
            "invalid_client_metadata",
        ),
        (json!({"redirect_uris": [REDIRECT], "response_types": ["token"]}), "invalid_client_metadata"),
        (json!({"client_name": "Editor"}), "invalid_client_metadata"),
        (json!([]), "invalid_client_metadata"),
    ] {
        let answer = register(&world, &body).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        expect_refusal(answer, error);
    }
    let large = json!({"redirect_uris": [REDIRECT], "software_statement": "a".repeat(5_000)});
    register(&world, &large).await.expect_problem(413, "too-large");
    world.stop().await;
}

#[tokio::test]
async fn requests_of_one_address_are_bounded() {
    let world = start_with_sign_in().await;
    let mut statuses = Vec::new();
    for _ in 0..400 {
        let path = ["/oauth/token", "/oauth/revoke"][statuses.len() % 2];
        statuses.push(send_form(&world, path, &[]).await.status.as_u16());
    }
    assert!(statuses.contains(&400) && statuses.contains(&429), "{statuses:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_person_has_at_most_fifty_assistants() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let assistant = Assistant::register(&world).await;
    for _ in 0..52 {
        assistant.get_code(&browser, false).await;
    }
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 50);
    world.stop().await;
}
