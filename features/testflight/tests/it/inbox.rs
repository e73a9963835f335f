//! An api with an inbox that asks a server of the test.

use crate::testflight::apple::{APP, AppleServer, ISSUER, KEY_ID};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Secret;
use unslide_testflight::Config;
use unslide_world::{Answer, World, wait_until};

/// The key with which the api of a test seals.
const SEALING_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Starts an api that asks a server instead of Apple's.
pub async fn start_world(apple: &AppleServer) -> World {
    start_sealing(apple, SEALING_KEY).await
}

/// The same with another key that seals, or without one.
pub async fn start_sealing(apple: &AppleServer, sealing_key: &str) -> World {
    let mut config = Config::default();
    config.api.testflight.sealing_key = Secret::new(sealing_key);
    config.api.testflight.apple_url = apple.url.clone();
    config.api.testflight.apple_network = Some(("127.0.0.0/8".to_owned(), apple.port));
    config.api.testflight.look_millis = 50;
    let features =
        [unslide_apple_reports::feature(), unslide_testflight::feature(config), unslide_console::feature()];
    World::start(unslide_feature::for_api(&features), |_| {}).await
}

/// The body that sets the key of the server.
pub fn new_key(apple: &AppleServer) -> Value {
    json!({"issuer_id": ISSUER, "key_id": KEY_ID, "private_key": apple.private_key, "apps": [APP]})
}

pub async fn put_key(world: &World, key: &str, body: &Value) -> Answer {
    world.send(world.request(Method::PUT, "/v1/testflight", key).json(body)).await
}

pub async fn read_inbox(world: &World, key: &str) -> Value {
    world.get("/v1/testflight", key).await.expect_status(200)
}

/// Sets the key, and waits for the end of the first poll.
pub async fn set_and_poll(world: &World, key: &str, apple: &AppleServer) -> Value {
    put_key(world, key, &new_key(apple)).await.expect_status(200);
    wait_for_poll(world, key, &Value::Null).await
}

/// Has Apple asked now, and waits for the end of that.
pub async fn poll(world: &World, key: &str) -> Value {
    let before = read_inbox(world, key).await["key"]["polled_at"].clone();
    world.post("/v1/testflight/poll", key, "").await.expect_status(202);
    wait_for_poll(world, key, &before).await
}

async fn wait_for_poll(world: &World, key: &str, before: &Value) -> Value {
    let mut state = Value::Null;
    let is_polled = async || {
        state = read_inbox(world, key).await;
        !state["key"]["polled_at"].is_null() && state["key"]["polled_at"] != *before
    };
    assert!(wait_until(is_polled).await, "Apple was not asked");
    state
}

/// Makes logs due that were not there.
pub async fn retry_logs(world: &World) {
    world.execute("UPDATE testflight_submissions SET next_try_at = now() - interval '1 second' WHERE state = 'waiting'").await;
}
