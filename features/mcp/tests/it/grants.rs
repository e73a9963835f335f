//! The access that a person gives: its way from the first refusal to a tool, and its end.

use crate::mcp::assistant::{
    Assistant, SERVICE, Tokens, expect_refusal, message_status, person_key, send_form, send_message,
    start_with_sign_in,
};
use serde_json::json;
use unslide_model::Scope;
use unslide_site::{EndedProviderSession, end_provider_sessions, end_sessions_of_keys};
use unslide_world::{Browser, tenant_id};

#[tokio::test]
async fn an_assistant_finds_the_way_to_a_consent_and_acts_as_the_person() {
    let world = start_with_sign_in().await;
    let refused = send_message(&world, "/mcp/acme", "", "tools/list").await;
    let challenge = refused.headers["www-authenticate"].to_str().unwrap().to_owned();
    refused.expect_problem(401, "unauthorized");
    let document = format!("{SERVICE}/.well-known/oauth-protected-resource/mcp/acme");
    assert!(challenge.contains(&format!("resource_metadata=\"{document}\"")), "{challenge}");
    assert!(challenge.contains("scope=\"reports:read groups:write\""), "{challenge}");
    let about = world.get(document.strip_prefix(SERVICE).unwrap(), "").await.expect_status(200);
    assert_eq!(about["resource"], format!("{SERVICE}/mcp/acme"));
    assert_eq!(about["authorization_servers"], json!([SERVICE]));
    let server = world.get("/.well-known/oauth-authorization-server", "").await.expect_status(200);
    assert_eq!(server["issuer"], SERVICE);
    assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(server["authorization_response_iss_parameter_supported"], true);

    let person = person_key(&world, "acme").await;
    let browser = Browser::signed_in(&world, &person).await;
    let assistant = Assistant::register(&world).await;
    let page = browser.fetch_page(&assistant.consent_path()).await;
    for text in ["Editor", "127.0.0.1", "acme", "Robin", "a program on this computer", "Let it change groups"]
    {
        assert!(page.contains(text), "{text} in {page}");
    }
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0, "a page changes nothing");
    let tokens = assistant.get_tokens(&browser, false).await;
    assert_eq!(tokens.scope, "reports:read");
    let tools = send_message(&world, "/mcp/acme", &tokens.access, "tools/list").await.expect_status(200);
    assert!(!tools.to_string().contains("resolve_group"), "{tools}");
    let writer = assistant.get_tokens(&browser, true).await;
    assert_eq!(writer.scope, "reports:read groups:write");
    let tools = send_message(&world, "/mcp/acme", &writer.access, "tools/list").await.expect_status(200);
    assert!(tools.to_string().contains("resolve_group"), "{tools}");
    // Tools ask the operations as the person.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_apps", "arguments": {}}});
    let request = world.request(reqwest::Method::POST, "/mcp/acme", &tokens.access);
    let request = request.header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream").body(call.to_string());
    let apps = world.send(request).await.expect_status(200);
    assert!(apps["result"]["content"][0]["text"].as_str().unwrap().starts_with("0 entries."), "{apps}");

    let listed = browser.fetch_page("/console/assistants").await;
    assert!(listed.contains("Editor") && listed.contains("/mcp/acme"), "{listed}");
    assert_eq!(listed.matches("End access").count(), 2);
    let admin = world.create_master_key("acme").await;
    let log = world.get("/v1/audit-log", &admin).await.expect_status(200);
    let entry = log["items"].as_array().unwrap().iter().find(|entry| entry["action"] == "mcp.grant").unwrap();
    assert_eq!(entry["detail"]["client"], "Editor");
    assert_eq!(entry["name"], "test", "the entry names the account");
    let denied = assistant.decide(&browser, "deny", false).await;
    assert!(denied.query().unwrap().contains("error=access_denied"), "{denied}");
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 2);
    world.stop().await;
}

#[tokio::test]
async fn a_token_counts_for_its_resource_and_tenant_only() {
    let world = start_with_sign_in().await;
    let acme = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let mut assistant = Assistant::register(&world).await;
    let of_tenant = assistant.get_tokens(&acme, true).await;
    assistant.resource = format!("{SERVICE}/mcp");
    let of_any = assistant.get_tokens(&acme, true).await;
    for (path, token, status) in [
        ("/mcp/acme", &of_tenant.access, 200),
        ("/mcp", &of_tenant.access, 401),
        ("/mcp/umbrella", &of_tenant.access, 401),
        ("/mcp", &of_any.access, 200),
        ("/mcp/acme", &of_any.access, 401),
        ("/mcp/umbrella", &of_any.access, 401),
        ("/mcp/acme", &of_tenant.refresh, 401),
    ] {
        let answer = send_message(&world, path, token, "tools/list").await;
        assert_eq!(answer.status, status, "{path} {token}");
        if status == 401 {
            let challenge = answer.headers["www-authenticate"].to_str().unwrap();
            assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        }
    }
    // Of the API's operations it gives none.
    for token in [&of_tenant.access, &of_any.access] {
        world.get("/v1/groups", token).await.expect_problem(401, "unauthorized");
    }
    // Keys count at both addresses, within their tenant.
    let key = person_key(&world, "acme").await;
    for (path, status) in [("/mcp", 200), ("/mcp/acme", 200), ("/mcp/umbrella", 401)] {
        assert_eq!(send_message(&world, path, &key, "tools/list").await.status, status, "{path}");
    }
    world.stop().await;
}

#[tokio::test]
async fn access_ends_at_once_with_the_scopes_and_the_sign_in_of_the_person() {
    let world = start_with_sign_in().await;
    let scopes = vec![Scope::ReportsRead, Scope::GroupsWrite];
    let new =
        unslide_store::keys::NewApiKey { name: "robin".to_owned(), scopes, app: None, expires_at: None };
    let (id, key) = world.make_key("acme", &new).await;
    let browser = Browser::signed_in(&world, &key).await;
    let assistant = Assistant::register(&world).await;
    let tokens = assistant.get_tokens(&browser, true).await;
    let set_scopes = async |scopes: &str| {
        world.execute(&format!("UPDATE keys SET scopes = '{scopes}' WHERE id = '{id}'")).await;
    };
    let list_tools =
        async || send_message(&world, "/mcp/acme", &tokens.access, "tools/list").await.expect_status(200);
    assert!(list_tools().await.to_string().contains("resolve_group"));
    set_scopes("{reports:read}").await;
    assert!(!list_tools().await.to_string().contains("resolve_group"), "a scope that was removed");
    set_scopes("{symbols:read}").await;
    let refused = send_message(&world, "/mcp/acme", &tokens.access, "tools/list").await;
    let challenge = refused.headers["www-authenticate"].to_str().unwrap().to_owned();
    refused.expect_problem(403, "insufficient-scope");
    assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
    expect_refusal(assistant.refresh(&tokens.refresh).await, "invalid_grant");
    // New scopes of the person are none of the grant.
    set_scopes("{reports:read,tenant:admin}").await;
    assert_eq!(message_status(&world, &tokens.access).await, 200);
    let tokens = Tokens::read(assistant.refresh(&tokens.refresh).await);
    assert_eq!(tokens.scope, "reports:read");

    // One session at the identity provider is not all of them.
    let keys = [id];
    let one = EndedProviderSession { keys: &keys, provider_session: Some("other"), ends_unnamed: false };
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    end_provider_sessions(&mut tx, &one).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(message_status(&world, &tokens.access).await, 200);
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    end_sessions_of_keys(&mut tx, &keys).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(message_status(&world, &tokens.access).await, 401);
    expect_refusal(assistant.refresh(&tokens.refresh).await, "invalid_grant");

    // A key that is revoked or over.
    let browser = Browser::signed_in(&world, &key).await;
    let tokens = assistant.get_tokens(&browser, true).await;
    for column in ["revoked_at", "expires_at"] {
        world
            .execute(&format!("UPDATE keys SET {column} = now() - interval '1 second' WHERE id = '{id}'"))
            .await;
        assert_eq!(message_status(&world, &tokens.access).await, 401, "{column}");
        expect_refusal(assistant.refresh(&tokens.refresh).await, "invalid_grant");
        world.execute(&format!("UPDATE keys SET {column} = NULL WHERE id = '{id}'")).await;
        assert_eq!(message_status(&world, &tokens.access).await, 200, "{column}");
    }
    world.execute(&format!("DELETE FROM keys WHERE id = '{id}'")).await;
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn people_of_a_provider_that_is_revoked_with_its_key_keep_no_access() {
    let world = start_with_sign_in().await;
    let (root, _) = world.make_key("acme", &reader("admin")).await;
    let (id, key) = world.make_key("acme", &reader("robin")).await;
    world.execute(&format!("UPDATE sign_in_providers SET set_by = '{root}' WHERE tenant = 'acme'")).await;
    let person = format!(
        "INSERT INTO people (tenant, issuer, subject, key_id, last_sign_in_at)
         VALUES ('acme', 'https://login.example.com', 'robin', '{id}', now())"
    );
    world.execute(&person).await;
    let assistant = Assistant::register(&world).await;
    let tokens = assistant.get_tokens(&Browser::signed_in(&world, &key).await, false).await;
    let admin = world.create_master_key("acme").await;
    world.delete(&format!("/v1/keys/{root}?cascade=true"), &admin).await.expect_status(200);
    assert_eq!(message_status(&world, &tokens.access).await, 401);
    assert_eq!(world.number("SELECT count(*) FROM mcp_grants").await, 0);
    world.stop().await;
}

fn reader(name: &str) -> unslide_store::keys::NewApiKey {
    unslide_store::keys::NewApiKey {
        name: name.to_owned(),
        scopes: vec![Scope::ReportsRead],
        app: None,
        expires_at: None,
    }
}

#[tokio::test]
async fn a_person_and_an_assistant_end_the_access() {
    let world = start_with_sign_in().await;
    let browser = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let other = Browser::signed_in(&world, &person_key(&world, "acme").await).await;
    let stranger = Browser::signed_in(&world, &person_key(&world, "umbrella").await).await;
    let assistant = Assistant::register(&world).await;
    let tokens = assistant.get_tokens(&browser, false).await;
    let id = world.text("SELECT id::text FROM mcp_grants").await;
    let path = format!("/console/assistants/{id}/end");
    for foreign in [&other, &stranger] {
        assert!(!foreign.fetch_page("/console/assistants").await.contains("Editor"));
        foreign.submit_form(&path).await;
        assert_eq!(message_status(&world, &tokens.access).await, 200);
    }
    browser.submit_form(&path).await;
    assert_eq!(message_status(&world, &tokens.access).await, 401);
    expect_refusal(assistant.refresh(&tokens.refresh).await, "invalid_grant");
    // The assistant gives a token back, of either kind.
    for revoked in [|tokens: &Tokens| tokens.access.clone(), |tokens: &Tokens| tokens.refresh.clone()] {
        let tokens = assistant.get_tokens(&browser, false).await;
        let unknown = tokens.access.replace("mcpa_acme", "mcpa_umbrella");
        for token in [unknown.as_str(), "unslide_a", "mcpa_acme.0"] {
            assert_eq!(send_form(&world, "/oauth/revoke", &[("token", token)]).await.status, 200);
        }
        assert_eq!(message_status(&world, &tokens.access).await, 200);
        assert_eq!(send_form(&world, "/oauth/revoke", &[("token", &revoked(&tokens))]).await.status, 200);
        assert_eq!(message_status(&world, &tokens.access).await, 401);
        expect_refusal(assistant.refresh(&tokens.refresh).await, "invalid_grant");
    }
    expect_refusal(send_form(&world, "/oauth/revoke", &[]).await, "invalid_request");
    assert_eq!(world.number("SELECT count(*) FROM audit_log WHERE action = 'mcp.revoke'").await, 3);
    world.stop().await;
}
