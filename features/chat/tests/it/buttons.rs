//! Buttons act as the account of the person who pressed them, once.

use crate::chat::played::Fault;
use crate::chat::shop::{SIGNING_SECRET, Shop, new_app, put};
use serde_json::{Value, json};
use unslide_model::{Clock, Scope, SystemClock};
use unslide_site::{EndedProviderSession, end_provider_sessions, end_sessions_of_keys};
use unslide_store::keys::NewApiKey;
use unslide_world::{Browser, tenant_id, wait_until};

/// Returns the path of the newest link that a person was shown.
async fn wait_for_link(shop: &Shop, count: usize) -> String {
    shop.wait_for("a link", |slack| slack.with(|played| played.ephemeral.len() >= count)).await;
    let shown = shop.slack.with(|played| played.ephemeral.last().unwrap().clone());
    assert_eq!(shown["user"], "U1");
    let text = shown["text"].as_str().unwrap();
    let link = text.split_once("<https://crashes.example.com").and_then(|(_, rest)| rest.split_once('|'));
    link.unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

/// Connects the person `U1` to the account of a key.
pub async fn connect(shop: &Shop, key: &str, group: &str) {
    let shown = shop.slack.with(|played| played.ephemeral.len());
    let at = format!("connect {shown}");
    shop.send(&Shop::press("U1", "ignore", group, &at)).await.expect_empty();
    let path = wait_for_link(shop, shown + 1).await;
    let done = Browser::signed_in(&shop.world, key).await.post(&path, String::new()).await;
    assert!(done.status == 200 && done.text.contains("acts as"), "{}", done.text);
}

pub trait ExpectEmpty {
    fn expect_empty(self);
}

impl ExpectEmpty for unslide_world::Answer {
    /// Slack wants status 200 and an empty body.
    fn expect_empty(self) {
        assert_eq!((self.status.as_u16(), self.text.as_str()), (200, ""));
    }
}

#[tokio::test]
async fn a_button_acts_as_the_connected_account_and_as_none_without_one() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    shop.wait_for("a first message", |slack| slack.parents().len() == 1).await;
    shop.send(&Shop::press("U1", "resolve_next", &group, "1")).await.expect_empty();
    let path = wait_for_link(&shop, 1).await;
    assert_eq!(shop.group_status(&group).await, "open");
    // The link is of this tenant. Opening it changes nothing, and it works once.
    let stranger = shop.world.create_master_key("umbrella").await;
    let stranger = Browser::signed_in(&shop.world, &stranger).await;
    assert_eq!(stranger.get(&path).await.status, 404);
    assert_eq!(stranger.post(&path, String::new()).await.status, 404);
    let reader = shop.world.create_key("acme", &[Scope::ReportsRead]).await;
    assert_eq!(Browser::signed_in(&shop.world, &reader).await.post(&path, String::new()).await.status, 403);
    let browser = Browser::signed_in(&shop.world, &shop.key).await;
    for _ in 0..2 {
        let page = browser.fetch_page(&path).await;
        assert!(page.contains("U1") && page.contains("Connect only yourself"), "{page}");
    }
    assert_eq!(shop.world.number("SELECT count(*) FROM slack_people").await, 0);
    assert_eq!(browser.post(&path, String::new()).await.status, 200);
    assert_eq!(browser.post(&path, String::new()).await.status, 404);
    shop.send(&Shop::press("U1", "resolve_next", &group, "2")).await.expect_empty();
    shop.wait_for_text("State: resolved in the next version").await;
    let activity =
        shop.world.get(&format!("/v1/groups/{group}/activity"), &shop.key).await.expect_status(200);
    let key = shop.world.text("SELECT key_id::text FROM slack_people").await;
    assert!(activity.to_string().contains(&key), "{activity}");
    shop.send(&Shop::press("U1", "assign_me", &group, "3")).await.expect_empty();
    shop.wait_for_text("assigned to").await;
    // Another person of the workspace has no account.
    let other = shop.crash(2, "1.0").await;
    shop.send(&Shop::press("U2", "ignore", &other, "4")).await.expect_empty();
    shop.wait_for("a link", |slack| slack.with(|played| played.ephemeral.len() == 2)).await;
    assert_eq!(shop.group_status(&other).await, "open");
    shop.world.stop().await;
}

#[tokio::test]
async fn a_press_that_is_sent_again_acts_once() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    connect(&shop, &shop.key, &group).await;
    let press = Shop::press("U1", "ignore", &group, "7");
    shop.send(&press).await.expect_empty();
    assert!(wait_until(async || shop.group_status(&group).await == "ignored").await, "it does not act");
    shop.change_group(&group, &json!({"status": "open"})).await;
    shop.send(&press).await.expect_empty();
    shop.wait_until_idle().await;
    assert_eq!(shop.group_status(&group).await, "open");
    assert_eq!(shop.world.number("SELECT count(*) FROM slack_actions").await, 2);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_request_that_is_not_from_slack_or_for_another_tenant_changes_nothing() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    connect(&shop, &shop.key, &group).await;
    shop.world.create_master_key("umbrella").await;
    let foreign = shop.crash_of("umbrella", 2, "1.0").await;
    let now = SystemClock.now().unix_timestamp();
    let press = Shop::press("U1", "ignore", &group, "7");
    let send = async |path: &str, secret: &str, at: i64, payload: &Value| {
        shop.send_signed(path, secret, at, payload).await
    };
    let path = shop.request_path.as_str();
    send(path, "another-secret-of-16", now, &press).await.expect_problem(401, "unsigned-hook");
    send(path, SIGNING_SECRET, now - 400, &press).await.expect_problem(401, "unsigned-hook");
    send(&path.replace("acme", "umbrella"), SIGNING_SECRET, now, &press)
        .await
        .expect_problem(404, "not-found");
    send("/chat/slack/acme.x", SIGNING_SECRET, now, &press).await.expect_problem(404, "not-found");
    // Without the key of the service it is a stranger's mistake, too.
    let secret = shop.world.text("SELECT encode(sealed_signing_secret, 'hex') FROM slack_apps").await;
    shop.world.execute("UPDATE slack_apps SET sealed_signing_secret = sealed_token").await;
    let refused = send(path, SIGNING_SECRET, now, &press).await.expect_problem(401, "unsigned-hook");
    assert!(refused.contains("made with another secret") && !refused.contains("seal"), "{refused}");
    let restore = format!("UPDATE slack_apps SET sealed_signing_secret = decode('{secret}', 'hex')");
    shop.world.execute(&restore).await;
    let mut other_team = press.clone();
    other_team["team"]["id"] = "T9".into();
    let refused = send(path, SIGNING_SECRET, now, &other_team).await.expect_problem(400, "invalid-body");
    assert!(refused.contains("workspace"), "{refused}");
    let mut large = press.clone();
    large["message"] = "x".repeat(300_000).into();
    send(path, SIGNING_SECRET, now, &large).await.expect_problem(413, "too-large");
    assert_eq!(shop.group_status(&group).await, "open");
    // The group of another tenant looks like one that is gone.
    let shown = shop.slack.with(|played| played.ephemeral.len());
    shop.send(&Shop::press("U1", "ignore", &foreign, "8")).await.expect_empty();
    shop.wait_for("an answer", |slack| slack.with(|played| played.ephemeral.len() == shown + 1)).await;
    let text =
        shop.slack.with(|played| played.ephemeral.last().unwrap()["text"].as_str().unwrap().to_owned());
    assert!(text.contains("is gone, or your account may not see it"), "{text}");
    let status = format!("SELECT status FROM groups WHERE tenant = 'umbrella' AND id = '{foreign}'");
    assert_eq!(shop.world.text(&status).await, "open");
    shop.world.stop().await;
}

#[tokio::test]
async fn an_account_acts_within_its_app_and_as_long_as_its_key_is_in_force() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    let new = NewApiKey {
        name: "robin".to_owned(),
        scopes: vec![Scope::GroupsWrite, Scope::ReportsRead],
        app: Some("com.acme.other".to_owned()),
        expires_at: None,
    };
    let (id, key) = shop.world.make_key("acme", &new).await;
    connect(&shop, &key, &group).await;
    shop.send(&Shop::press("U1", "ignore", &group, "7")).await.expect_empty();
    let said = |part: &'static str| {
        move |slack: &crate::chat::played::SlackServer| {
            slack.with(|played| {
                played.ephemeral.iter().any(|one| one["text"].as_str().unwrap().contains(part))
            })
        }
    };
    shop.wait_for("a refusal", said("your account may not see it")).await;
    assert_eq!(shop.group_status(&group).await, "open");
    shop.world.execute(&format!("UPDATE keys SET apps = '{{}}' WHERE id = '{id}'")).await;
    shop.world.execute(&format!("UPDATE keys SET scopes = '{{reports:read}}' WHERE id = '{id}'")).await;
    shop.send(&Shop::press("U1", "ignore", &group, "8")).await.expect_empty();
    shop.wait_for("a refusal", said("lacks the scope groups:write")).await;
    let shown = shop.slack.with(|played| played.ephemeral.len());
    shop.world.delete(&format!("/v1/keys/{id}"), &shop.key).await.expect_status(200);
    shop.send(&Shop::press("U1", "ignore", &group, "9")).await.expect_empty();
    wait_for_link(&shop, shown + 1).await;
    assert_eq!(shop.group_status(&group).await, "open");
    shop.world.stop().await;
}

#[tokio::test]
async fn an_account_ends_with_all_sessions_of_its_person_and_not_with_one() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    connect(&shop, &shop.key, &group).await;
    let key = shop.world.text("SELECT key_id::text FROM slack_people").await.parse().unwrap();
    let end = async |tenant: &str, provider_session: Option<&str>| {
        let mut tx = shop.world.store.tenant(&tenant_id(tenant)).await.unwrap();
        let ended = EndedProviderSession { keys: &[key], provider_session, ends_unnamed: true };
        end_provider_sessions(&mut tx, &ended).await.unwrap();
        tx.commit().await.unwrap();
        shop.world.number("SELECT count(*) FROM slack_people").await
    };
    assert_eq!(end("acme", Some("a session at the provider")).await, 1);
    shop.world.create_master_key("umbrella").await;
    assert_eq!(end("umbrella", None).await, 1);
    assert_eq!(end("acme", None).await, 0, "signed out everywhere");
    // Without rights the sessions of a key end in the same way.
    connect(&shop, &shop.key, &group).await;
    let mut tx = shop.world.store.tenant(&tenant_id("acme")).await.unwrap();
    end_sessions_of_keys(&mut tx, &[key]).await.unwrap();
    tx.commit().await.unwrap();
    let shown = shop.slack.with(|played| played.ephemeral.len());
    shop.send(&Shop::press("U1", "ignore", &group, "9")).await.expect_empty();
    wait_for_link(&shop, shown + 1).await;
    assert_eq!(shop.group_status(&group).await, "open");
    shop.world.stop().await;
}

#[tokio::test]
async fn no_more_presses_wait_than_the_limit() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    let waiting = format!(
        "INSERT INTO slack_actions (tenant, id, slack_user, user_name, channel, action, group_id, received_at, due_at)
         SELECT 'acme', sha256(n::text::bytea), 'U1', 'robin', 'C1', 'ignore', '{group}', now(), now() + interval '1 hour'
         FROM generate_series(1, 1000) n"
    );
    shop.world.execute(&waiting).await;
    let refused = shop.send(&Shop::press("U1", "ignore", &group, "7")).await;
    assert!(refused.expect_problem(409, "limit-reached").contains("press it again later"));
    assert_eq!(shop.world.number("SELECT count(*) FROM slack_actions").await, 1_000);
    shop.world.execute("UPDATE slack_actions SET due_at = NULL").await;
    shop.send(&Shop::press("U1", "ignore", &group, "7")).await.expect_empty();
    shop.world.stop().await;
}

#[tokio::test]
async fn another_workspace_takes_over_no_accounts_and_no_presses() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    connect(&shop, &shop.key, &group).await;
    shop.slack.fail_next("auth.test", Fault::Word("internal_error"));
    let mut moved = new_app();
    moved
        .as_object_mut()
        .unwrap()
        .extend([("team".to_owned(), json!("T9")), ("force".to_owned(), json!(true))]);
    let set = put(&shop.world, &shop.key, &moved).await.expect_status(200);
    assert_eq!(set["team"], "T9");
    for table in ["slack_people", "slack_actions", "slack_links"] {
        assert_eq!(shop.world.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    shop.send(&Shop::press("U1", "ignore", &group, "7")).await.expect_problem(404, "not-found");
    assert_eq!(shop.group_status(&group).await, "open");
    shop.world.stop().await;
}
