//! An api with a tenant that has crashes and a Slack app, and the requests of Slack.

use crate::chat::played::{CHANNEL, SlackServer, TEAM, TOKEN};
use reqwest::Method;
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::{Value, json};
use unslide_chat::Config;
use unslide_harness::database::arrival;
use unslide_model::{Clock, ContentHash, ReportGrouping, ReportId, Secret, SystemClock};
use unslide_store::partitions::ensure_partitions;
use unslide_store::reports::{Effects, store_arrivals};
use unslide_world::{Answer, World, encode_form, tenant_id, wait_until};

/// The secret that signs the requests of Slack.
pub const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
/// The app of the crashes.
pub const APP: &str = "com.acme.shop";
/// The reason of the crashes.
pub const HOSTILE_REASON: &str =
    "hostile <!channel> <@U1> [a](https://evil.example.com) *b* & <https://evil.example.com|c>";

/// An api with a Slack app, and the key of an administrator.
pub struct Shop {
    pub world: World,
    pub key: String,
    pub slack: SlackServer,
    /// The path to which Slack sends its requests.
    pub request_path: String,
}

/// Settings that reach a server of the test.
pub fn settings(slack: &SlackServer) -> Config {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com".to_owned();
    let chat = &mut config.api.chat;
    chat.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    chat.slack_url.clone_from(&slack.url);
    chat.networks = vec!["127.0.0.0/8".to_owned()];
    chat.ports = vec![slack.port];
    chat.look_millis = 30;
    chat.group_look_millis = 0;
    chat.pace_millis = 0;
    chat.answer_millis = 1_000;
    config
}

pub async fn start_with(config: Config) -> World {
    let feature = unslide_chat::feature(config);
    assert_eq!(feature.settings.as_ref().unwrap().problems, []);
    let mut tickets = unslide_tickets::Config::default();
    tickets.api.tickets.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    // No tracker is asked.
    (tickets.api.tickets.networks, tickets.api.tickets.ports) = (vec!["127.0.0.0/8".to_owned()], vec![9]);
    tickets.api.tickets.look_millis = 3_600_000;
    let features = [feature, unslide_tickets::feature(tickets), unslide_console::feature()];
    Box::pin(World::start(unslide_feature::for_api(&features), |_| {})).await
}

/// The body that sets the Slack app.
pub fn new_app() -> Value {
    json!({"bot_token": TOKEN, "signing_secret": SIGNING_SECRET, "channel": CHANNEL})
}

pub async fn put(world: &World, key: &str, body: &Value) -> Answer {
    world.send(world.request(Method::PUT, "/v1/chat/slack", key).json(body)).await
}

impl Shop {
    pub async fn open() -> Shop {
        let slack = SlackServer::start().await;
        let world = Box::pin(start_with(settings(&slack))).await;
        let key = world.create_master_key("acme").await;
        let set = put(&world, &key, &new_app()).await.expect_status(200);
        let url = set["request_url"].as_str().unwrap();
        let request_path = url.strip_prefix("https://crashes.example.com").unwrap().to_owned();
        Shop { world, key, slack, request_path }
    }

    /// Stores report number `n` of bug `n % 3` in a version, and returns its group.
    pub async fn crash(&self, n: u8, version: &str) -> String {
        self.crash_of("acme", n, version).await
    }

    /// Stores such a report of a tenant.
    pub async fn crash_of(&self, tenant: &str, n: u8, version: &str) -> String {
        let mut crash = arrival(n);
        let body = json!({"report": {"id": ReportId([n; 16]).to_string()}, "system": {"CFBundleIdentifier": APP},
            "crash": {"error": {"type": "nsexception", "reason": HOSTILE_REASON, "nsexception": {"name": HOSTILE_REASON}},
                "threads": [{"index": 0, "crashed": true, "backtrace": {"contents": [{"instruction_addr": 4_096}]}}]}});
        let body = body.to_string();
        crash.body = unslide_proto::body::compress_report(body.as_bytes());
        (crash.size, crash.content_hash) = (body.len() as u64, ContentHash([n; 32]));
        crash.received_at = SystemClock.now();
        crash.facts.version = version.to_owned();
        crash.facts.grouping = crash.facts.grouping.map(|bug| ReportGrouping {
            provisional: false,
            title: HOSTILE_REASON.to_owned(),
            ..bug
        });
        let (report, day) = (crash.report_id, crash.received_at.date());
        ensure_partitions(&self.world.store, day, day).await.unwrap();
        let mut tx = self.world.store.tenant(&tenant_id(tenant)).await.unwrap();
        store_arrivals(&mut tx, &[crash], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        let query = format!(
            "SELECT group_id::text FROM reports WHERE tenant = '{tenant}' AND report_id = '{report}'"
        );
        self.world.text(&query).await
    }

    pub async fn change_group(&self, group: &str, change: &Value) {
        self.world.patch(&format!("/v1/groups/{group}"), &self.key, change).await.expect_status(200);
    }

    pub async fn group_status(&self, group: &str) -> String {
        let found = self.world.get(&format!("/v1/groups/{group}"), &self.key).await.expect_status(200);
        found["status"].as_str().unwrap().to_owned()
    }

    /// Waits until Slack has what a function looks for.
    pub async fn wait_for(&self, what: &str, has: impl Fn(&SlackServer) -> bool) {
        assert!(
            wait_until(async || has(&self.slack)).await,
            "{what}: {:?}",
            self.slack.with(|played| { (played.messages.clone(), played.ephemeral.clone()) })
        );
    }

    /// Waits until the first message shows a text.
    pub async fn wait_for_text(&self, text: &str) {
        let shows = |slack: &SlackServer| {
            slack.parents().iter().any(|parent| parent["blocks"].to_string().contains(text))
        };
        self.wait_for(text, shows).await;
    }

    /// Waits until no work is due, but for groups.
    pub async fn wait_until_idle(&self) {
        let due = "SELECT count(*) FROM slack_threads WHERE due_at <= now() + interval '5 seconds' OR leased_until IS NOT NULL";
        let actions = "SELECT count(*) FROM slack_actions WHERE due_at IS NOT NULL";
        let is_idle = async || self.world.number(due).await == 0 && self.world.number(actions).await == 0;
        assert!(wait_until(is_idle).await, "work is due");
    }

    /// Makes work due that waits after a failure.
    pub async fn hurry(&self) {
        self.world.execute("UPDATE slack_apps SET not_before = NULL").await;
        self.world
            .execute(
                "UPDATE slack_threads SET due_at = now() WHERE leased_until IS NULL AND due_at IS NOT NULL",
            )
            .await;
    }

    /// Returns the request of a button that a person pressed.
    pub fn press(user: &str, action: &str, group: &str, at: &str) -> Value {
        json!({"type": "block_actions", "team": {"id": TEAM}, "user": {"id": user, "name": "robin", "team_id": TEAM},
            "api_app_id": "A1", "channel": {"id": CHANNEL}, "container": {"type": "message", "message_ts": "1.0"},
            "actions": [{"type": "button", "action_id": action, "block_id": "group", "value": group, "action_ts": at}]})
    }

    /// Sends a request as Slack does it.
    pub async fn send(&self, payload: &Value) -> Answer {
        self.send_signed(&self.request_path, SIGNING_SECRET, SystemClock.now().unix_timestamp(), payload)
            .await
    }

    pub async fn send_signed(&self, path: &str, secret: &str, at: i64, payload: &Value) -> Answer {
        let body = encode_form(&[("payload", &payload.to_string())]);
        let signature = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), format!("v0:{at}:{body}").as_bytes());
        let digits: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let request = self
            .world
            .request(Method::POST, path, "")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("x-slack-request-timestamp", at.to_string())
            .header("x-slack-signature", format!("v0={digits}"));
        self.world.send(request.body(body)).await
    }
}
