//! A running api with this feature and the console.

use reqwest::Method;
use serde_json::{Value, json};
use unslide_ingest::{Config, IngestApiSettings};
use unslide_world::{Answer, World, report_json};

pub const A: &str = "11111111-1111-1111-1111-111111111111";
pub const B: &str = "22222222-2222-2222-2222-222222222222";
pub const APP: &str = "com.example.shop";

pub async fn start() -> World {
    start_with(IngestApiSettings::default().ingest_overflow_bytes).await
}

/// Starts with this limit of overflow for each tenant.
pub async fn start_with(ingest_overflow_bytes: u64) -> World {
    let api = IngestApiSettings { ingest_overflow_bytes, ..IngestApiSettings::default() };
    let ingest = unslide_ingest::feature(Config { api });
    let features = unslide_feature::for_api(&[ingest, unslide_console::feature()]);
    World::start(features, |_| {}).await
}

/// Makes a public key of a tenant for apps.
pub async fn public_key(world: &World, tenant: &str, apps: &[&str]) -> Value {
    let admin = world.create_master_key(tenant).await;
    world.post_json("/v1/public-keys", &admin, &json!({"name": "app", "apps": apps})).await.expect_status(201)
}

/// Sends a body as an app does, with no key in a header.
pub async fn send(world: &World, key: &str, body: impl Into<reqwest::Body>) -> Answer {
    world.send(world.request(Method::POST, &format!("/i/{key}"), "").body(body)).await
}

/// A report of another app.
pub fn report_of(app: &str, id: &str) -> Value {
    let mut report = report_json(id);
    report["system"]["CFBundleIdentifier"] = app.into();
    report
}
