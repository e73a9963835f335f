//! Who sets receivers, and that their secrets stay in.

use crate::audit_export::shop::{RECEIVERS, SECRET, put, read_receiver, start};
use crate::audit_export::syslog_server::AUTHORITY;
use crate::audit_export::webhook_server::WebhookServer;
use serde_json::json;
use unslide_model::Scope;
use unslide_world::{Browser, encode_form, redirect_location};

#[tokio::test]
async fn secrets_are_sealed_and_never_shown() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    let new = json!({"name": "siem", "kind": "webhook", "address": server.url(), "secret": SECRET});
    let set = put(&world, &key, &new).await.expect_status(200);
    assert!(set["new_secret"].is_null(), "{set}");
    let shown = world.get(RECEIVERS, &key).await.expect_status(200);
    let log = world.get("/v1/audit-log", &key).await.expect_status(200);
    assert!(log.to_string().contains("audit_receiver.set"));
    let page = Browser::signed_in(&world, &key).await.fetch_page("/console/audit-receivers").await;
    assert!(page.contains(&format!("http://127.0.0.1:{}/…", server.port)), "{page}");
    for secret in [SECRET, "hidden-path"] {
        for shown in [set.to_string(), shown.to_string(), log.to_string(), page.clone()] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let stored = format!(
            "SELECT count(*) FROM audit_receivers WHERE position('{secret}'::bytea IN sealed_target) > 0
                OR shown_address LIKE '%{secret}%'"
        );
        assert_eq!(world.number(&stored).await, 0);
    }
    // The secret stays for the same URL. Another one gets a secret of its own, which is shown once.
    let mut body = new.clone();
    body["secret"] = json!(null);
    assert!(put(&world, &key, &body).await.expect_status(200)["new_secret"].is_null());
    body["address"] = json!(format!("{}?a", server.url()));
    let made = put(&world, &key, &body).await.expect_status(200)["new_secret"].as_str().unwrap().to_owned();
    assert!(made.starts_with("whsec_") && made != SECRET, "{made}");
    assert!(!read_receiver(&world, &key).await.to_string().contains(&made));
    world.delete(&format!("{RECEIVERS}/siem"), &key).await.expect_status(204);
    world.delete(&format!("{RECEIVERS}/siem"), &key).await.expect_problem(404, "not-found");
    assert_eq!(world.number("SELECT count(*) FROM audit_receivers").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_receiver_that_may_not_be_reached_or_cannot_work_is_refused() {
    let world = start(&[6_514]).await;
    let key = world.create_master_key("acme").await;
    let webhook = |address: &str| json!({"name": "siem", "kind": "webhook", "address": address});
    let syslog = |address: &str| json!({"name": "siem", "kind": "syslog", "address": address});
    let with = |mut body: serde_json::Value, name: &str, value: &str| {
        body[name] = json!(value);
        body
    };
    for (body, part) in [
        (webhook("ftp://siem.example.com"), "address"),
        (webhook("https://10.0.0.1/a"), "api.audit_export.networks"),
        (webhook("https://siem.example.com:8443/a"), "api.audit_export.ports"),
        (webhook("https://user:hunter2@siem.example.com/a"), "a user"),
        (with(webhook("https://siem.example.com/a"), "secret", "short"), "whsec_"),
        (with(webhook("https://siem.example.com/a"), "authority", AUTHORITY), "authority"),
        (with(webhook("https://siem.example.com/a"), "name", "Siem"), "name"),
        (syslog("10.0.0.1"), "api.audit_export.networks"),
        (syslog("siem.example.com:25"), "api.audit_export.ports"),
        (syslog("https://siem.example.com"), "host:port"),
        (with(syslog("siem.example.com"), "secret", SECRET), "secret"),
        (with(syslog("siem.example.com"), "authority", "-----BEGIN"), "authority"),
        (with(syslog("siem.example.com"), "kind", "udp"), "kind"),
    ] {
        let detail = put(&world, &key, &body).await.expect_problem(400, "invalid-body");
        assert!(detail.contains(part) && !detail.contains("hunter2"), "{body}: {detail}");
    }
    for number in 1..=5 {
        let body = with(syslog("siem.example.com"), "name", &format!("siem-{number}"));
        put(&world, &key, &body).await.expect_status(200);
    }
    put(&world, &key, &syslog("siem.example.com")).await.expect_problem(409, "limit-reached");
    let shop = world.key_for("acme", &[Scope::TenantAdmin], Some("shop")).await;
    put(&world, &shop, &syslog("siem.example.com")).await.expect_problem(403, "insufficient-scope");
    world.get(RECEIVERS, &shop).await.expect_problem(403, "insufficient-scope");
    world.get("/v1/audit-log/entries", &shop).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn the_page_sets_tests_and_removes_a_receiver() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let path = "/console/audit-receivers";
    let (url, name) = (server.url(), ("name", "siem"));
    let form = [("action", "set"), name, ("kind", "webhook"), ("address", url.as_str())];
    let made = browser.post(path, encode_form(&form)).await;
    assert!(made.text.contains("whsec_"), "{}", made.text);
    let mut form = form.to_vec();
    form.push(("secret", SECRET));
    let set = browser.post(path, encode_form(&form)).await;
    assert_eq!(redirect_location(&set), path);
    let works = browser.post(path, encode_form(&[("action", "test"), name])).await;
    assert!(works.text.contains("It works") && works.text.contains("audit_log.test"), "{}", works.text);
    let removed = browser.post(path, encode_form(&[("action", "remove"), name])).await;
    assert_eq!(redirect_location(&removed), path);
    assert_eq!(world.number("SELECT count(*) FROM audit_receivers").await, 0);
    world.stop().await;
}
