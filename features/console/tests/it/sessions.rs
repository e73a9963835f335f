//! Sessions of the console: who gets in and for how long, and which forms count.

use crate::console::start;
use reqwest::{Method, StatusCode};
use std::time::Duration;
use unslide_model::Scope;
use unslide_store::{erasure, keys};
use unslide_world::{Browser, encode_form, redirect_location, tenant_id};

const COOKIE: &str = "unslide_console=";

fn new_key(scopes: &[Scope]) -> keys::NewApiKey {
    keys::NewApiKey { name: "test".to_owned(), scopes: scopes.to_vec(), app: None, expires_at: None }
}

#[tokio::test]
async fn a_key_signs_in_for_as_long_as_it_is_in_force() {
    let world = start().await;
    let (id, key) = world.make_key("acme", &new_key(&Scope::ALL)).await;
    let browser = Browser::new(&world);
    assert_eq!(redirect_location(&browser.get("/console").await), "/console/sign-in");
    assert_eq!(
        redirect_location(&browser.get("/console/groups?q=a").await),
        "/console/sign-in?next=%2Fconsole%2Fgroups%3Fq%3Da"
    );
    let wrong =
        format!("{}{}", key.get(..key.len() - 1).unwrap(), if key.ends_with('a') { 'b' } else { 'a' });
    for bad in ["", "unslide", &wrong] {
        let refused = browser.sign_in(bad, "").await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        assert!(!refused.headers.contains_key("set-cookie") && refused.text.contains("was not accepted"));
        assert!(bad.is_empty() || !refused.text.contains(&format!("\"{bad}\"")), "a key is not written back");
    }
    let accepted = browser.sign_in(&key, "/console/groups?q=a").await;
    assert_eq!(redirect_location(&accepted), "/console/groups?q=a");
    let cookie = accepted.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with(COOKIE), "{cookie}");
    for part in ["; Path=/console", "; HttpOnly", "; SameSite=Strict", "; Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "plain HTTP to this machine: {cookie}");
    let browser = Browser::with_cookie(&world, cookie.split(';').next().unwrap());
    let page = browser.get("/console").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("acme") && page.text.contains("Robin") && !page.text.contains(&key));
    let kept = "SELECT count(*) FROM console_sessions s WHERE to_jsonb(s)::text LIKE '%' || ";
    let token = browser.cookie.trim_start_matches(COOKIE);
    for secret in [token, key.get(key.len() - 40..).unwrap()] {
        assert_eq!(world.number(&format!("{kept}'{secret}' || '%'")).await, 0);
    }
    assert_eq!(world.number("SELECT count(*) FROM audit_log WHERE action = 'console.sign_in'").await, 1);
    // The session ends with its key.
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    keys::revoke_key(&mut tx, id, None).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(redirect_location(&browser.get("/console").await), "/console/sign-in");
    world.until_refused(&key).await;
    assert_eq!(browser.sign_in(&key, "").await.status, StatusCode::UNAUTHORIZED);
    world.stop().await;
}

#[tokio::test]
async fn a_session_ends_by_sign_out_by_its_time_and_with_its_tenant() {
    let world = start().await;
    let key = world.create_master_key("acme").await;
    let out = Browser::signed_in(&world, &key).await;
    let gone = out.post("/console/sign-out", String::new()).await;
    assert_eq!(redirect_location(&gone), "/console/sign-in");
    assert!(gone.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(redirect_location(&out.get("/console").await), "/console/sign-in");
    let over = Browser::signed_in(&world, &key).await;
    let mut database = world.connect().await;
    sqlx::query("UPDATE console_sessions SET ends_at = now() - interval '1 second'")
        .execute(&mut database)
        .await
        .unwrap();
    assert_eq!(redirect_location(&over.get("/console").await), "/console/sign-in");
    assert_eq!(unslide_store::tables::purge_old_rows(&world.store).await.unwrap(), 1);
    let expires_at = Some(world.host.clock.now() + Duration::from_secs(3_600));
    let ends = world.make_key("acme", &keys::NewApiKey { expires_at, ..new_key(&Scope::ALL) }).await;
    let expired = Browser::signed_in(&world, &ends.1).await;
    sqlx::query("UPDATE keys SET expires_at = now() - interval '1 second' WHERE id = $1")
        .bind(ends.0)
        .execute(&mut database)
        .await
        .unwrap();
    sqlx::Connection::close(database).await.unwrap();
    assert_eq!(redirect_location(&expired.get("/console").await), "/console/sign-in");
    let deleted = Browser::signed_in(&world, &key).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(redirect_location(&deleted.get("/console").await), "/console/sign-in");
    world.stop().await;
}

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let world = start().await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let other = world.make_key("acme", &new_key(&[Scope::ReportsRead])).await.0;
    for path in [
        "/console/sign-out".to_owned(),
        format!("/console/keys/{other}/revoke"),
        "/console/keys".to_owned(),
        "/console/sign-in".to_owned(),
        format!("/console/groups/{other}/update"),
        format!("/console/groups/{other}/merge"),
    ] {
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("accept", "*/*"),
        ] {
            let request =
                browser.request(Method::POST, &path).header(name, value).body(encode_form(&[("key", &key)]));
            let refused = browser.send(request).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path} {name}: {value}");
            assert!(!refused.headers.contains_key("set-cookie"));
        }
    }
    assert_eq!(browser.get("/console").await.status, StatusCode::OK, "still signed in");
    assert_eq!(world.number("SELECT count(*) FROM keys WHERE revoked_at IS NOT NULL").await, 0);
    let own =
        browser.request(Method::POST, &format!("/console/keys/{other}/revoke")).header("origin", &world.url);
    assert_eq!(redirect_location(&browser.send(own).await), "/console/keys");
    assert_eq!(world.number("SELECT count(*) FROM keys WHERE revoked_at IS NOT NULL").await, 1);
    // A link of another site brings no cookie: the page is asked for once more, from here.
    let from_elsewhere = Browser::new(&world);
    let request =
        from_elsewhere.request(Method::GET, "/console/groups").header("sec-fetch-site", "cross-site");
    let again = from_elsewhere.send(request).await;
    assert!(
        again.text.contains("http-equiv=\"refresh\"") && again.text.contains("/console/groups"),
        "{}",
        again.text
    );
    world.stop().await;
}

/// A browser keeps the cookie of a session over HTTPS only, or from its own machine.
#[tokio::test]
async fn a_sign_in_over_plain_http_says_what_is_needed() {
    let world = start().await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::new(&world);
    let from = |method: Method, headers: &[(&str, &str)]| {
        let request = browser.request(method, "/console/sign-in").body(encode_form(&[("key", &key)]));
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let (host, plain) = (("host", "crashes.example.com:8080"), ("origin", "http://crashes.example.com:8080"));
    let words = "The console needs HTTPS here, or an SSH tunnel to localhost";
    for (method, headers) in [
        (Method::GET, vec![host]),
        (Method::POST, vec![host, plain]),
        (Method::POST, vec![host, ("origin", "null")]),
        (Method::POST, vec![host]),
    ] {
        let answer = browser.send(from(method.clone(), &headers)).await;
        assert!(answer.text.contains(words), "{method} {headers:?}: {}", answer.text);
        assert!(!answer.headers.contains_key("set-cookie"), "{method} {headers:?}");
        let expected = if method == Method::GET { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        assert_eq!(answer.status, expected, "{method} {headers:?}");
    }
    // Over HTTPS a browser signs in with its origin alone.
    let secure = ("origin", "https://crashes.example.com:8080");
    let answer = browser.send(from(Method::POST, &[host, secure])).await;
    assert!(answer.status == StatusCode::SEE_OTHER && answer.headers.contains_key("set-cookie"));
    let page = browser.fetch_page("/console/sign-in").await;
    assert!(!page.contains(words) && !page.contains("only to you"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn a_sign_in_leads_back_to_the_console_only() {
    let world = start().await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::new(&world);
    for foreign in [
        "https://evil.example/console",
        "//evil.example",
        "/\\evil.example",
        "/docs",
        "/console//evil.example",
        "/console\r\nx: y",
        "javascript:alert(1)",
    ] {
        assert_eq!(redirect_location(&browser.sign_in(&key, foreign).await), "/console", "{foreign}");
        let page = browser.get(&format!("/console/sign-in?{}", encode_form(&[("next", foreign)]))).await;
        assert!(page.text.contains("name=\"next\" value=\"/console\""), "{}", page.text);
    }
    world.stop().await;
}
