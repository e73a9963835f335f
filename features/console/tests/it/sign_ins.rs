//! Signing in to the console: what it costs, which keys may, and which cookie counts.

use crate::console::start;
use reqwest::StatusCode;
use unslide_model::Scope;
use unslide_store::tenants::QuotaLimits;
use unslide_world::{Browser, redirect_location};

const SIGN_INS: &str = "SELECT count(*) FROM audit_log WHERE action = 'console.sign_in'";

fn cookie(answer: &unslide_world::Answer) -> String {
    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_key_that_may_see_no_page_does_not_sign_in() {
    let world = start().await;
    for scope in [Scope::ReportsWrite, Scope::SymbolsWrite, Scope::GroupsWrite] {
        let key = world.create_key("acme", &[scope]).await;
        let refused = Browser::new(&world).sign_in(&key, "").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{scope}: {}", refused.text);
        assert!(!refused.headers.contains_key("set-cookie") && refused.text.contains("may see no page"));
    }
    for scope in [Scope::ReportsRead, Scope::SymbolsRead, Scope::TenantAdmin, Scope::Operator] {
        let key = world.create_key("acme", &[scope]).await;
        redirect_location(&Browser::new(&world).sign_in(&key, "").await);
    }
    assert_eq!(world.number(SIGN_INS).await, 4);
    world.stop().await;
}

#[tokio::test]
async fn sign_ins_cost_units_and_the_audit_log_has_one_of_a_key_and_hour() {
    let world = start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    for _ in 0..3 {
        redirect_location(&Browser::new(&world).sign_in(&key, "").await);
    }
    assert_eq!(world.number(SIGN_INS).await, 1);
    let other = world.create_key("acme", &[Scope::ReportsRead]).await;
    redirect_location(&Browser::new(&world).sign_in(&other, "").await);
    assert_eq!(world.number(SIGN_INS).await, 2);
    world.execute("UPDATE audit_log SET at = at - interval '61 minutes'").await;
    redirect_location(&Browser::new(&world).sign_in(&key, "").await);
    assert_eq!(world.number(SIGN_INS).await, 3);
    world.change_limits("umbrella", &QuotaLimits { units_per_second: 1, ..QuotaLimits::default() }).await;
    let key = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    redirect_location(&Browser::new(&world).sign_in(&key, "").await);
    let refused = Browser::new(&world).sign_in(&key, "").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.text);
    world.stop().await;
}

#[tokio::test]
async fn a_second_sign_in_in_the_same_browser_ends_the_first_session() {
    let world = start().await;
    let first = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let elsewhere = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let second = first.sign_in(&world.create_master_key("umbrella").await, "").await;
    redirect_location(&second);
    assert_eq!(redirect_location(&first.get("/console").await), "/console/sign-in");
    assert_eq!(elsewhere.get("/console").await.status, StatusCode::OK);
    let second = Browser::with_cookie(&world, &cookie(&second));
    assert!(second.fetch_page("/console").await.contains("umbrella"));
    world.stop().await;
}

/// A host of the same site can give a browser a cookie for all hosts of the site.
#[tokio::test]
async fn of_two_cookies_neither_counts() {
    let world = start().await;
    let own = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let foreign = Browser::signed_in(&world, &world.create_master_key("umbrella").await).await;
    for cookies in
        [format!("{}; {}", foreign.cookie, own.cookie), format!("{}; {}", own.cookie, foreign.cookie)]
    {
        let browser = Browser::with_cookie(&world, &cookies);
        assert_eq!(redirect_location(&browser.get("/console").await), "/console/sign-in");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_cookie_belongs_to_its_host_alone_unless_it_never_leaves_the_machine() {
    let world = start().await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::new(&world);
    let proxied = |request: reqwest::RequestBuilder| {
        request.header("x-forwarded-proto", "https").header("sec-fetch-site", "same-origin")
    };
    let form = unslide_world::encode_form(&[("key", &key)]);
    let request = proxied(browser.request(reqwest::Method::POST, "/console/sign-in")).body(form);
    let answer = browser.send(request).await;
    redirect_location(&answer);
    let set = answer.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("__Host-unslide_console="), "{set}");
    assert!(set.contains("; Path=/;") && set.ends_with("; Secure") && !set.contains("Domain"), "{set}");
    let signed_in = Browser::with_cookie(&world, &cookie(&answer));
    let page = signed_in.send(proxied(signed_in.request(reqwest::Method::GET, "/console"))).await;
    assert_eq!(page.status, StatusCode::OK);
    // Any host of the site can set the plain name.
    let plain = signed_in.cookie.replace("__Host-", "");
    let planted = Browser::with_cookie(&world, &plain);
    let answer = planted.send(proxied(planted.request(reqwest::Method::GET, "/console"))).await;
    assert_eq!(redirect_location(&answer), "/console/sign-in");
    world.stop().await;
}
