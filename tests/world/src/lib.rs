//! One api with servers of its own: a database, topics and a bucket that no other test has.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::missing_panics_doc, reason = "a test that lacks a server fails")]

mod browser;
mod gate;

pub use browser::{Browser, encode_form, list_links, redirect_location};
pub use gate::start_gate;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::ops::Deref;
use std::time::Duration;
use tokio::task::JoinHandle;
use unslide_api::{ApiFeatures, Config, Settings, Signing};
use unslide_harness::TestServers;
use unslide_model::{Scope, Secret, TenantId};
use unslide_runtime::Host;
use unslide_store::{keys, tenants};
use unslide_stream::{Record, scan};

/// A running api and what it runs on.
pub struct World {
    /// The address of the api.
    pub url: String,
    /// The configuration before it was changed.
    pub config: Box<Config>,
    /// The host that the api runs on.
    pub host: Host,
    servers: TestServers,
    client: reqwest::Client,
    running: JoinHandle<Result<(), unslide_api::Error>>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body.
    pub text: String,
}

impl Answer {
    /// The body as JSON.
    pub fn parse_json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e} in {}: {}", self.status, self.text))
    }

    /// The last part of the problem's type, after checking that it is a whole problem.
    pub fn check_problem(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text);
        let body = self.parse_json();
        assert_eq!(body["status"], self.status.as_u16());
        assert_eq!(body["request_id"], self.headers["x-request-id"].to_str().unwrap());
        assert!(body["title"].is_string());
        body["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
    }

    /// Checks the status and gives the body as JSON.
    pub fn expect_status(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.parse_json() }
    }

    /// Checks that this is a problem of a kind, and gives its detail.
    pub fn expect_problem(self, status: u16, slug: &str) -> String {
        assert_eq!((self.status.as_u16(), self.check_problem().as_str()), (status, slug), "{}", self.text);
        self.parse_json()["detail"].as_str().unwrap_or_default().to_owned()
    }
}

/// The id of a tenant.
pub fn tenant_id(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

impl Deref for World {
    type Target = TestServers;

    fn deref(&self) -> &TestServers {
        &self.servers
    }
}

impl World {
    /// Starts an api with these features, and a configuration that `change` changes beyond the addresses of its servers.
    pub async fn start(features: ApiFeatures, change: impl FnOnce(&mut Config)) -> World {
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut servers = TestServers::start("api", |_| {}).await;
        servers.store = servers.store.clone().with_hooks(&features.hooks);
        let mut config = Box::new(Config {
            api: Settings {
                listen: ([127, 0, 0, 1], 0).into(),
                cache_dir: servers.folder().join("cache"),
                signing: signing_settings(),
                ..Settings::default()
            },
            tenants: unslide_runtime::TenantDefaults::default(),
            postgres: servers.postgres.clone(),
            objects: servers.objects.clone(),
            symcaches: unslide_artifacts::CacheLimits::default(),
            kafka: servers.kafka.clone(),
            indexer: unslide_store::retention::RetentionSettings::default(),
            ..Config::default()
        });
        config.api.limits.announce_seconds = 1;
        assert_eq!(config.validate(), []);
        let host = Host::local().unwrap();
        let mut told = config.clone();
        change(&mut told);
        let listener = unslide_api::bind_listener(&told).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let running = tokio::spawn(unslide_api::run_on(listener, *told, features, host.clone()));
        let client = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        let is_serving = wait_until(async || {
            let health = host.health.check_readiness().await;
            health.probes.get("serving").is_some_and(|probe| probe.ok)
        });
        assert!(is_serving.await, "the api does not start");
        for name in ["acme", "umbrella"] {
            servers.make_tenant(&tenant_id(name)).await;
        }
        World { url, config, host, servers, client, running }
    }

    /// Stops the api, which must drain, and takes everything away.
    pub async fn stop(self) {
        self.host.shutdown.begin();
        tokio::time::timeout(Duration::from_secs(300), self.running).await.unwrap().unwrap().unwrap();
        self.servers.stop(false).await;
    }

    /// Stops object storage under the api.
    pub async fn stop_storage(&mut self) {
        self.servers.run_storage(false).await;
    }

    /// A new key of a tenant.
    pub async fn create_key(&self, of: &str, scopes: &[Scope]) -> String {
        self.key_for(of, scopes, None).await
    }

    /// A new key of a tenant for one app.
    pub async fn key_for(&self, of: &str, scopes: &[Scope], app: Option<&str>) -> String {
        let new = keys::NewApiKey {
            name: "test".to_owned(),
            scopes: scopes.to_vec(),
            app: app.map(str::to_owned),
            expires_at: None,
        };
        self.make_key(of, &new).await.1
    }

    /// A new key of a tenant: its id and its text.
    pub async fn make_key(&self, of: &str, new: &keys::NewApiKey) -> (unslide_store::Uuid, String) {
        let mut tx = self.store.tenant(&tenant_id(of)).await.unwrap();
        let entropy = unslide_api::entropy::Entropy::default().generate_key().unwrap();
        let (key, text) = keys::create_key(&mut tx, new, &entropy).await.unwrap();
        tx.commit().await.unwrap();
        (key.id, text.reveal().to_owned())
    }

    /// Changes what a tenant may use. Only a key that the api has not seen before is sure to have it at once.
    pub async fn change_limits(&self, of: &str, limits: &tenants::QuotaLimits) {
        let mut tx = self.store.tenant(&tenant_id(of)).await.unwrap();
        tenants::change_tenant(&mut tx, of, tenants::TenantStanding::Active, limits).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }

    /// Checks that a key which was revoked beside the api comes to be refused.
    pub async fn until_refused(&self, key: &str) {
        let is_refused = async || self.get("/v1/symbols", key).await.status == StatusCode::UNAUTHORIZED;
        assert!(wait_until(is_refused).await, "the key is in force");
        self.get("/v1/symbols", key).await.expect_problem(401, "unauthorized");
    }

    /// A key with every scope.
    pub async fn create_master_key(&self, of: &str) -> String {
        self.create_key(of, &Scope::ALL).await
    }

    /// A request, to be completed and given to [`World::send`].
    pub fn request(&self, method: Method, path: &str, key: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        if key.is_empty() { request } else { request.bearer_auth(key) }
    }

    /// Sends a request.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// Sends a GET.
    pub async fn get(&self, path: &str, key: &str) -> Answer {
        self.send(self.request(Method::GET, path, key)).await
    }

    /// Sends a DELETE.
    pub async fn delete(&self, path: &str, key: &str) -> Answer {
        self.send(self.request(Method::DELETE, path, key)).await
    }

    /// Sends a PATCH of JSON.
    pub async fn patch(&self, path: &str, key: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PATCH, path, key).body(body.to_string())).await
    }

    /// Sends a POST.
    pub async fn post(&self, path: &str, key: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.send(self.request(Method::POST, path, key).body(body)).await
    }

    /// Sends a POST of JSON.
    pub async fn post_json(&self, path: &str, key: &str, body: &Value) -> Answer {
        self.post(path, key, body.to_string()).await
    }

    /// Every record of the input topic so far, at least `at_least`.
    pub async fn read_sent_records(&self, at_least: usize) -> Vec<Record> {
        let (kafka, topic) = (&self.config.kafka, self.config.kafka.topic_names().input);
        let mut records = Vec::new();
        for _ in 0..1_800 {
            records = scan::whole_topic(kafka, &topic).await.unwrap();
            if records.len() >= at_least {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(records.len() >= at_least, "{} records", records.len());
        records
    }

    /// A gauge of the api, of one value of its label.
    pub fn read_gauge(&self, name: &str, value: &str) -> usize {
        let families = self.host.metrics.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let is = |label: &prometheus::proto::LabelPair| label.value() == value;
        let metric = family.get_metric().iter().find(|metric| metric.get_label().iter().any(is)).unwrap();
        metric.get_gauge().get_value() as usize
    }

    /// Keys in the bucket.
    pub async fn list_objects(&self, of: &str) -> Vec<String> {
        let objects = self.bucket().await;
        let prefix = unslide_artifacts::keys::tenant_prefix(&tenant_id(of));
        let page = objects.list(&prefix, None, 1_000).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key.to_string()).collect()
    }
}

impl World {
    /// The value of a metric: that of the first line that begins with `line`.
    pub fn read_metric(&self, line: &str) -> f64 {
        self.find_metric(line).unwrap_or_else(|| panic!("there is no {line}"))
    }

    fn find_metric(&self, line: &str) -> Option<f64> {
        let page = self.host.process_metrics().render_page().unwrap();
        page.lines().find_map(|found| found.strip_prefix(line)).map(|value| value.trim().parse().unwrap())
    }

    /// Returns once a metric has this value.
    pub async fn wait_for_metric(&self, line: &str, value: f64) {
        let is_reached = wait_until(async || self.find_metric(line) == Some(value)).await;
        assert!(is_reached, "{line} is {} and not {value}", self.read_metric(line));
    }
}

/// Waits for a condition, and returns whether it came to hold.
pub async fn wait_until(mut holds: impl AsyncFnMut() -> bool) -> bool {
    for _ in 0..15_000 {
        if holds().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// A body with bytes that come when they are sent. Dropping the sender ends it.
pub fn slow_body() -> (futures::channel::mpsc::UnboundedSender<Result<Vec<u8>, std::io::Error>>, reqwest::Body)
{
    let (more, bytes) = futures::channel::mpsc::unbounded();
    (more, reqwest::Body::wrap_stream(bytes))
}

/// A JSON text with spaces behind it, of `bytes` bytes.
pub fn pad_json(json: &str, bytes: usize) -> Vec<u8> {
    let mut padded = json.as_bytes().to_vec();
    padded.resize(bytes, b' ');
    padded
}

/// A report with this id.
pub fn report_json(id: &str) -> Value {
    json!({"report": {"id": id, "version": "3.6.0", "type": "standard"},
        "system": {"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.2", "CFBundleVersion": "34"},
        "binary_images": [], "crash": {"error": {"type": "signal"}, "threads": []}})
}

/// The key that the api signs with in tests.
pub fn signing_settings() -> Signing {
    let key = Secret::new("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=");
    Signing { name: "api".to_owned(), key }
}
