//! The key of a tenant: checked with Apple, sealed, and never shown.

use crate::testflight::apple::{APP, AppleServer, KEY_ID};
use crate::testflight::inbox::{new_key, put_key, read_inbox, set_and_poll, start_sealing, start_world};
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_world::{Browser, encode_form, redirect_location};

#[tokio::test]
async fn a_key_is_refused_with_what_is_missing() {
    let apple = AppleServer::start().await;
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    let refuse = async |change: &dyn Fn(&mut Value)| {
        let mut body = new_key(&apple);
        change(&mut body);
        put_key(&world, &admin, &body).await.expect_problem(400, "invalid-body")
    };
    assert!(refuse(&|body| body["private_key"] = "secret".into()).await.contains("AuthKey_"));
    assert!(
        refuse(&|body| drop(body.as_object_mut().unwrap().remove("private_key")))
            .await
            .contains("private_key")
    );
    assert!(refuse(&|body| body["key_id"] = "OTHER".into()).await.contains("401"));
    assert!(refuse(&|body| body["apps"] = json!([APP, "com.acme"])).await.contains("no app com.acme"));
    assert!(refuse(&|body| body["expires_at"] = "2020-01-01T00:00:00Z".into()).await.contains("expires_at"));
    apple.fail_next("limit=1&", 403);
    let role = refuse(&|_| {}).await;
    assert!(role.contains(APP) && role.contains("Developer") && role.contains("Apple says no"), "{role}");
    for status in [500, 429] {
        apple.fail_next("/v1/apps?", status);
        let later = put_key(&world, &admin, &new_key(&apple)).await.expect_problem(503, "unavailable");
        assert!(!later.contains(&apple.url), "{later}");
    }
    assert!(read_inbox(&world, &admin).await["key"].is_null());
    // By force, with the problem.
    apple.fail_next("/v1/apps?", 403);
    let mut forced = new_key(&apple);
    forced["force"] = true.into();
    let forced = put_key(&world, &admin, &forced).await.expect_status(200);
    assert!(forced["key"]["problem"].as_str().unwrap().contains("403"));
    // For administrators with all apps only.
    let lacking = world.create_key("acme", &[Scope::ReportsRead]).await;
    put_key(&world, &lacking, &new_key(&apple)).await.expect_problem(403, "insufficient-scope");
    let limited = world.key_for("acme", &Scope::ALL, Some(APP)).await;
    put_key(&world, &limited, &new_key(&apple)).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn a_service_without_a_key_to_seal_with_takes_none() {
    let apple = AppleServer::start().await;
    let world = start_sealing(&apple, "").await;
    let admin = world.create_master_key("acme").await;
    let refused = put_key(&world, &admin, &new_key(&apple)).await.expect_problem(400, "invalid-body");
    assert!(refused.contains("api.testflight.sealing_key"), "{refused}");
    assert_eq!(apple.count_requests(""), 0);
    let polled = world.post("/v1/testflight/poll", &admin, "").await.expect_status(202);
    assert!(polled["key"].is_null(), "{polled}");
    world.stop().await;
}

#[tokio::test]
async fn a_private_key_is_stored_sealed_and_never_shown() {
    let apple = AppleServer::start().await;
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    let set = set_and_poll(&world, &admin, &apple).await;
    assert_eq!(set["key"]["key_id"], KEY_ID);
    let secret = apple.private_key.lines().nth(1).unwrap().get(40..80).unwrap().to_owned();
    let log = world.get("/v1/audit-log", &admin).await.expect_status(200);
    assert!(log.to_string().contains("testflight.set"));
    let browser = Browser::signed_in(&world, &admin).await;
    let page = browser.fetch_page("/console/testflight").await;
    assert!(page.contains(KEY_ID) && page.contains(APP), "{page}");
    for shown in [set.to_string(), log.to_string(), page] {
        assert!(!shown.contains(&secret), "{shown}");
    }
    let stored =
        format!("SELECT count(*) FROM testflight_keys WHERE position('{secret}'::bytea IN sealed_key) > 0");
    assert_eq!(world.number(&stored).await, 0);
    // The same key keeps its private key, on the page as in the API; another one needs its own.
    let form = |key_id: &str| {
        encode_form(&[
            ("issuer_id", crate::testflight::apple::ISSUER),
            ("key_id", key_id),
            ("apps", "com.acme.shop com.acme.bank"),
            ("action", "set"),
        ])
    };
    let changed = browser.post("/console/testflight", form(KEY_ID)).await;
    assert_eq!(redirect_location(&changed), "/console/testflight");
    assert_eq!(read_inbox(&world, &admin).await["key"]["apps"], json!(["com.acme.bank", APP]));
    let other = browser.post("/console/testflight", form("OTHER")).await;
    assert!(other.text.contains("private_key"), "{}", other.text);
    let asked = browser.post("/console/testflight", encode_form(&[("action", "poll")])).await;
    assert_eq!(redirect_location(&asked), "/console/testflight");
    let removed = browser.post("/console/testflight", encode_form(&[("action", "remove")])).await;
    assert_eq!(redirect_location(&removed), "/console/testflight");
    assert!(read_inbox(&world, &admin).await["key"].is_null());
    assert_eq!(world.number("SELECT count(*) FROM testflight_keys").await, 0);
    world.stop().await;
}
