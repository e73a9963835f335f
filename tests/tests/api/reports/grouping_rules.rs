//! A tenant's own rules of grouping: tried, set, shown.

use crate::reports::{A, crash, store};
use crate::world::World;
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;

const B: &str = "22222222-2222-2222-2222-222222222222";
const RULES: &str = "/v1/grouping-rules";

/// A report without symbols, at another address than [`A`]'s.
fn another(id: &str) -> Value {
    let mut other = crash(id, "1.0");
    let frame = &mut other["crash"]["threads"][0];
    frame["registers"]["basic"]["pc"] = 0x1_0000_2000_u64.into();
    frame["backtrace"]["contents"][0]["instruction_addr"] = 0x1_0000_2000_u64.into();
    other
}

#[tokio::test]
async fn a_trial_says_what_rules_would_do_and_changes_nothing() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin, Scope::ReportsRead]).await;
    let now = world.host.clock.now();
    store(&world, "acme", &crash(A, "1.0"), 1, now).await;
    store(&world, "acme", &another(B), 1, now).await;
    let groups = async || world.get("/v1/groups", &key).await.expect_status(200)["items"].clone();
    let before = groups().await;
    assert_eq!(before.as_array().unwrap().len(), 2);
    let trial = async |text: &str| {
        world.post_json(&format!("{RULES}/trial"), &key, &json!({"text": text})).await.expect_status(200)
    };
    // Without an image nothing says where: what happened is the same.
    let effect = trial("ignore image Shop").await;
    let of = |name: &str| effect[name].as_u64().unwrap();
    assert_eq!((of("looked"), of("moved"), of("merged"), of("split"), of("unread")), (2, 2, 2, 0, 0));
    let example = &effect["examples"][0];
    assert!(example["from_title"].as_str().unwrap().contains("symbols missing"), "{example}");
    assert_eq!(effect["examples"][0]["to"], effect["examples"][1]["to"]);
    let effect = trial("ignore image Other").await;
    assert_eq!((effect["moved"].as_u64(), effect["examples"].as_array().map(Vec::len)), (Some(0), Some(0)));
    assert_eq!(groups().await, before);
    let own = world.get(RULES, &key).await.expect_status(200);
    assert_eq!(own, json!({}));
    for reports in [0, 2_001] {
        let body = json!({"text": "", "reports": reports});
        world.post_json(&format!("{RULES}/trial"), &key, &body).await.expect_problem(400, "invalid-body");
    }
    world.stop().await;
}

#[tokio::test]
async fn rules_are_set_by_an_administrator_of_every_app_and_explain_uses_them() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin, Scope::ReportsRead]).await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let set = async |key: &str, text: &str| {
        let body = json!({"text": text}).to_string();
        world.send(world.request(Method::PUT, RULES, key).body(body)).await
    };
    let detail = set(&key, "ignore image Shop\nhide image *").await.expect_problem(400, "invalid-body");
    assert!(detail.contains("line 2: unknown action \"hide\""), "{detail}");
    let changed = set(&key, "# ours\nignore image Shop").await.expect_status(200);
    assert_eq!((&changed["version"], &changed["status"]), (&1.into(), &"running".into()));
    let shown = world.get(RULES, &key).await.expect_status(200);
    assert_eq!(shown["rules"]["text"], "# ours\nignore image Shop");
    assert_eq!(shown["rules"]["previous"], "");
    let explained = world.get(&format!("/v1/reports/{A}/explain"), &key).await.expect_status(200);
    let function = &explained["backtraces"][0]["frames"][0]["grouping"][0];
    assert_eq!((&function["verdict"], &function["counted"]), (&"ignored".into(), &false.into()));
    assert_eq!(function["rule"], "line 2: ignore image Shop");
    let one_app = world.key_for("acme", &[Scope::TenantAdmin], Some("com.example.shop")).await;
    set(&one_app, "").await.expect_problem(403, "insufficient-scope");
    // Another tenant's rules are its own.
    let other = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    assert_eq!(world.get(RULES, &other).await.expect_status(200), json!({}));
    // The rules before stay known, also where the same rules are set again.
    for version in [2, 3] {
        let cleared = set(&key, "").await.expect_status(200);
        assert_eq!((&cleared["version"], &cleared["text"]), (&version.into(), &"".into()));
        assert_eq!(cleared["previous"], "# ours\nignore image Shop");
    }
    world.stop().await;
}
