//! An api with a tenant that has crashes and a tracker, and the hooks of the tracker.

use crate::tickets::played::{Product, TOKEN, TrackerServer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::{Value, json};
use unslide_api::feature::ApiFeature;
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_harness::database::arrival;
use unslide_model::{Clock, ContentHash, ReportGrouping, ReportId, Secret, SystemClock};
use unslide_store::group_links::GroupLink;
use unslide_store::partitions::ensure_partitions;
use unslide_store::reports::{Arrival, Effects, store_arrivals};
use unslide_store::tenants::{QuotaLimits, create_tenant};
use unslide_store::{HookFuture, StoreEvent, StoreHook};
use unslide_tickets::Config;
use unslide_world::{Answer, World, tenant_id, wait_until};

/// The secret of hooks.
pub const HOOK_SECRET: &str = "a-hook-secret-of-the-test";
/// The app of the crashes.
pub const APP: &str = "com.acme.shop";

/// An api with a tracker `main`, and the key of an administrator.
pub struct Shop {
    pub world: World,
    pub key: String,
    pub tracker: TrackerServer,
    /// The path to which hooks go.
    pub hook_path: String,
}

/// Settings that reach a server of the test.
pub fn settings(tracker: &TrackerServer) -> Config {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com".to_owned();
    let tickets = &mut config.api.tickets;
    tickets.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    tickets.networks = vec!["127.0.0.0/8".to_owned()];
    tickets.ports = vec![tracker.port];
    tickets.look_millis = 30;
    tickets.settle_millis = Some(0);
    tickets.answer_millis = 1_000;
    config
}

/// The link that another feature has about each group.
pub const GROUP_LINK: &str = "https://github.com/example/shop/compare/0a1b2c3...4d5e6f7";

fn link_feature() -> ConfiguredFeature {
    let hook = StoreHook { on_event: Some(add_link), ..StoreHook::new("links") };
    Feature { hook, ..Feature::new("links", |_| link_feature()) }.with_api(ApiFeature::new("links"))
}

fn add_link<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    if let StoreEvent::GroupLinksAsked(_, _, links) = event {
        links.push(GroupLink { text: "Compare the commits".to_owned(), url: GROUP_LINK.to_owned() });
    }
    Box::pin(std::future::ready(Ok(())))
}

pub async fn start_with(config: Config) -> World {
    let features = [unslide_tickets::feature(config), unslide_console::feature(), link_feature()];
    World::start(unslide_feature::for_api(&features), |_| {}).await
}

/// The body that sets the tracker of a server.
pub fn new_tracker(tracker: &TrackerServer) -> Value {
    let mut body = json!({"name": "main", "kind": tracker.kind(), "url": tracker.url, "project": tracker.project(), "token": TOKEN,
        "hook_secret": HOOK_SECRET});
    if tracker.product == Product::JiraCloud {
        body["account"] = "robin@example.com".into();
    }
    body
}

pub async fn put(world: &World, key: &str, path: &str, body: &Value) -> Answer {
    world.send(world.request(Method::PUT, path, key).json(body)).await
}

impl Shop {
    pub async fn open(product: Product) -> Shop {
        Shop::open_with(product, |_| {}).await
    }

    pub async fn open_with(product: Product, change: impl FnOnce(&mut Config)) -> Shop {
        let tracker = TrackerServer::start(product).await;
        let mut config = settings(&tracker);
        change(&mut config);
        let world = start_with(config).await;
        let key = world.create_master_key("acme").await;
        let set = put(&world, &key, "/v1/trackers", &new_tracker(&tracker)).await.expect_status(200);
        let hook_url = set["hook_url"].as_str().unwrap();
        let hook_path = hook_url.strip_prefix("https://crashes.example.com").unwrap().to_owned();
        Shop { world, key, tracker, hook_path }
    }

    /// Makes a further tenant with a tracker, and returns the key of its administrator.
    pub async fn add_tenant(&self, slug: &str, tracker: &TrackerServer) -> String {
        let mut tx = self.world.store.tenant(&tenant_id(slug)).await.unwrap();
        create_tenant(&mut tx, slug, &QuotaLimits::default()).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        let key = self.world.create_master_key(slug).await;
        put(&self.world, &key, "/v1/trackers", &new_tracker(tracker)).await.expect_status(200);
        key
    }

    /// Stores report number `n` of bug `n % 3` in a version, and returns its group.
    pub async fn crash(&self, n: u8, version: &str) -> String {
        self.crash_of("acme", n, version).await
    }

    /// Stores a report of a tenant as [`Shop::crash`].
    pub async fn crash_of(&self, tenant: &str, n: u8, version: &str) -> String {
        let mut crash = arrival(n);
        let body = json!({"report": {"id": ReportId([n; 16]).to_string()}, "system": {"CFBundleIdentifier": APP},
            "crash": {"error": {"type": "mach", "reason": "hostile @channel\n/close ``` {noformat}",
                "mach": {"exception_name": "EXC_BAD_ACCESS"}},
                "threads": [{"index": 0, "crashed": true, "backtrace": {"contents": [{"instruction_addr": 4_096}]}}]}});
        let body = body.to_string();
        crash.body = unslide_proto::body::compress_report(body.as_bytes());
        (crash.size, crash.content_hash) = (body.len() as u64, ContentHash([n; 32]));
        crash.received_at = SystemClock.now();
        crash.facts.version = version.to_owned();
        crash.facts.grouping = crash.facts.grouping.map(|bug| ReportGrouping { provisional: false, ..bug });
        self.store_for(tenant, crash).await
    }

    /// Stores a report, and returns its group.
    pub async fn store(&self, crash: Arrival) -> String {
        self.store_for("acme", crash).await
    }

    async fn store_for(&self, tenant: &str, crash: Arrival) -> String {
        let report = crash.report_id;
        let day = crash.received_at.date();
        ensure_partitions(&self.world.store, day, day).await.unwrap();
        let mut tx = self.world.store.tenant(&tenant_id(tenant)).await.unwrap();
        store_arrivals(&mut tx, &[crash], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        let query = format!(
            "SELECT group_id::text FROM reports WHERE tenant = '{tenant}' AND report_id = '{report}'"
        );
        self.world.text(&query).await
    }

    pub async fn create_ticket(&self, group: &str) -> Value {
        let path = format!("/v1/groups/{group}/ticket");
        self.world.post_json(&path, &self.key, &json!({})).await.expect_status(202)
    }

    pub async fn read_ticket(&self, group: &str) -> Value {
        self.world.get(&format!("/v1/groups/{group}/ticket"), &self.key).await.expect_status(200)["ticket"]
            .clone()
    }

    pub async fn read_group(&self, group: &str) -> Value {
        self.world.get(&format!("/v1/groups/{group}"), &self.key).await.expect_status(200)
    }

    /// Makes a ticket, and waits until it is there.
    pub async fn make_ticket(&self, group: &str) -> Value {
        self.create_ticket(group).await;
        self.wait_for_state(group, "open").await
    }

    pub async fn wait_for_state(&self, group: &str, state: &str) -> Value {
        let mut ticket = Value::Null;
        let has_state = async || {
            ticket = self.read_ticket(group).await;
            ticket["state"] == state
        };
        assert!(wait_until(has_state).await, "no ticket is {state}");
        ticket
    }

    pub async fn wait_for_status(&self, group: &str, status: &str) -> Value {
        let mut found = Value::Null;
        let has_status = async || {
            found = self.read_group(group).await;
            found["status"] == status
        };
        assert!(wait_until(has_status).await, "the group is not {status}");
        found
    }

    /// Waits until no request is due.
    pub async fn wait_until_idle(&self) {
        let due = "SELECT count(*) FROM ticket_requests WHERE due_at <= now() + interval '5 seconds' OR leased_until IS NOT NULL";
        assert!(wait_until(async || self.world.number(due).await == 0).await, "work is due");
    }

    /// Makes requests due that wait after a failure.
    pub async fn hurry(&self) {
        self.world.execute("UPDATE trackers SET not_before = NULL").await;
        self.world.execute("UPDATE ticket_requests SET due_at = now() WHERE leased_until IS NULL").await;
    }

    /// Links a group to a ticket.
    pub async fn link_ticket(&self, group: &str, ticket: &str) -> Answer {
        put(&self.world, &self.key, &format!("/v1/groups/{group}/ticket"), &json!({"ticket": ticket})).await
    }

    /// Sends a hook that is signed as the product does it.
    pub async fn send_hook(&self, delivery: &str, event: &str, body: &Value) -> Answer {
        self.send_signed(HOOK_SECRET, delivery, event, body).await
    }

    pub async fn send_signed(&self, secret: &str, delivery: &str, event: &str, body: &Value) -> Answer {
        let mut body = body.clone();
        if self.tracker.product == Product::Linear {
            body["webhookTimestamp"] = (SystemClock.now().unix_timestamp() * 1_000).into();
        }
        let text = body.to_string();
        let signature = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), text.as_bytes());
        let digits: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let now = SystemClock.now().unix_timestamp();
        let request = self.world.request(Method::POST, &self.hook_path, "");
        let request = match self.tracker.product {
            Product::Github => request
                .header("x-github-event", event)
                .header("x-github-delivery", delivery)
                .header("x-hub-signature-256", format!("sha256={digits}")),
            Product::Gitlab => {
                let signed = format!("{delivery}.{now}.{text}");
                let signature = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
                request
                    .header("idempotency-key", delivery)
                    .header("webhook-id", delivery)
                    .header("webhook-timestamp", now.to_string())
                    .header("webhook-signature", format!("v1,{}", STANDARD.encode(signature.as_ref())))
            }
            Product::JiraCloud | Product::JiraDataCenter => request
                .header("x-atlassian-webhook-identifier", delivery)
                .header("x-hub-signature", format!("sha256={digits}")),
            Product::Linear => request.header("linear-delivery", delivery).header("linear-signature", digits),
        };
        self.world.send(request.header("content-type", "application/json").body(text)).await
    }

    /// Returns the hook that says that the first ticket has changed.
    pub fn ticket_hook(&self) -> Value {
        match self.tracker.product {
            Product::Github => {
                json!({"action": "closed", "issue": {"number": 1}, "repository": {"full_name": "example/shop"}})
            }
            Product::Gitlab => {
                json!({"object_kind": "issue", "project": {"path_with_namespace": "example/shop"},
                "object_attributes": {"iid": 1, "action": "close"}})
            }
            Product::JiraCloud | Product::JiraDataCenter => {
                json!({"webhookEvent": "jira:issue_updated", "issue": {"id": "10001", "key": "SHOP-1"}})
            }
            Product::Linear => {
                let id = self.tracker.with(|played| played.tickets[0].own_id.clone());
                json!({"action": "update", "type": "Issue", "data": {"id": id, "identifier": "ENG-1"}})
            }
        }
    }

    /// Closes the first ticket, and has the tracker tell of it.
    pub async fn close_ticket(
        &self,
        delivery: &str,
        reason: Option<&'static str>,
        version: Option<&'static str>,
    ) {
        self.tracker.with(|played| {
            let ticket = &mut played.tickets[0];
            (ticket.is_closed, ticket.reason, ticket.version) = (true, reason, version);
        });
        let answer = self.send_hook(delivery, "issues", &self.ticket_hook()).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    }
}
