//! A part that is away takes nothing from the others.

use crate::test_door::{TestDoor, make_directory};
use crate::two_cells::{TwoCells, start_cell_with};
use reqwest::{Method, Url};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::{Scope, Secret};
use unslide_runtime::Host;
use unslide_store::cells::CellSettings;
use unslide_world::{Answer, start_gate, wait_until};

const STRANGER: &str = "unslide_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The service cannot answer now, and says when to try again.
fn expect_away(answer: Answer) {
    assert_eq!(answer.headers["retry-after"], "2");
    let problem = answer.expect_status(503);
    assert_eq!(problem["type"], "/problems/unavailable");
}

#[tokio::test]
async fn while_the_directory_is_away_known_tenants_go_on_and_new_keys_of_theirs_too() {
    let cells = TwoCells::start().await;
    let acme = cells.eu.create_key("acme", &[Scope::ReportsRead]).await;
    let umbrella = cells.us.create_key("umbrella", &[Scope::ReportsRead]).await;
    assert_eq!(cells.status("/v1/reports", &acme).await, 200);
    cells.directory.let_connect(false).await;
    let is_noticed = async || {
        let health = cells.host.health.check_dependencies().await;
        !health.is_complete()
    };
    assert!(wait_until(is_noticed).await);
    assert_eq!(cells.status("/v1/reports", &acme).await, 200);
    assert_eq!(cells.status("/v1/reports", &umbrella).await, 200);
    assert_eq!(cells.status("/v1/reports", STRANGER).await, 401);
    cells.directory.let_connect(true).await;
    let is_back = async || cells.host.health.check_dependencies().await.is_complete();
    assert!(wait_until(is_back).await);
    cells.stop().await;
}

#[tokio::test]
async fn a_door_waits_for_its_directory() {
    let directory = make_directory(&[], &[]).await;
    let (port, gate) = start_gate().await;
    let mut url = Url::parse(directory.postgres.url.reveal()).unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432));
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(port)).unwrap();
    let config = unslide_door::Config {
        door: unslide_door::Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            ..unslide_door::Settings::default()
        },
        cells: CellSettings { name: "eu".to_owned(), directory: Secret::new(url), ..CellSettings::default() },
        postgres: unslide_store::Settings { any_login: true, ..unslide_store::Settings::default() },
    };
    let host = Host::local().unwrap();
    let running = tokio::spawn(unslide_door::run(config, host.clone()));
    let is_ready = async || host.health.check_readiness().await.ready;
    let waits = async || host.health.check_readiness().await.probes.contains_key("directory");
    assert!(wait_until(waits).await && !is_ready().await);
    gate.send_replace(Some(server));
    assert!(wait_until(is_ready).await);
    host.shutdown.begin();
    running.await.unwrap().unwrap();
    directory.stop(false).await;
}

#[tokio::test]
async fn without_the_api_of_one_cell_the_others_go_on() {
    let TwoCells { door, eu, us } = *TwoCells::start().await;
    let acme = eu.create_key("acme", &[Scope::ReportsRead]).await;
    let fresh = eu.create_key("acme", &[Scope::ReportsRead]).await;
    let umbrella = us.create_key("umbrella", &[Scope::ReportsRead]).await;
    for key in [&acme, &umbrella] {
        assert_eq!(door.status("/v1/reports", key).await, 200);
    }
    us.stop().await;
    expect_away(door.get("/v1/reports", &umbrella).await);
    for key in [&acme, &fresh] {
        assert_eq!(door.status("/v1/reports", key).await, 200);
    }
    // The key may be one of the cell that is away: it is not refused.
    expect_away(door.get("/v1/reports", STRANGER).await);
    assert_eq!(door.status("/docs", "").await, 200);
    door.wait_for_cell("us", false).await;
    assert_eq!(door.status("/readyz", "").await, 200);
    door.stop().await;
    eu.stop().await;
}

#[tokio::test]
async fn without_the_database_of_one_cell_the_others_go_on() {
    let cells = TwoCells::start().await;
    let acme = cells.eu.create_key("acme", &[Scope::ReportsRead]).await;
    let fresh = cells.eu.create_key("acme", &[Scope::ReportsRead]).await;
    let unseen = cells.us.create_key("umbrella", &[Scope::ReportsRead]).await;
    assert_eq!(cells.status("/v1/reports", &acme).await, 200);
    cells.us.let_connect(false).await;
    let began = Instant::now();
    for key in [&acme, &fresh] {
        assert_eq!(cells.status("/v1/reports", key).await, 200);
    }
    // The answer of the cell that has the key is not kept waiting for the other one.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    expect_away(cells.get("/v1/reports", &unseen).await);
    expect_away(cells.get("/v1/reports", STRANGER).await);
    cells.us.let_connect(true).await;
    let is_back = async || cells.status("/v1/reports", &unseen).await == 200;
    assert!(wait_until(is_back).await);
    cells.stop().await;
}

#[tokio::test]
async fn an_api_that_does_not_trust_the_door_is_not_asked_and_gets_no_request_twice() {
    let eu = start_cell_with(&[]).await;
    let us = start_cell_with(&["127.0.0.0/8"]).await;
    let cells = [("eu", eu.url.as_str()), ("us", us.url.as_str())];
    let door = TestDoor::start(make_directory(&cells, &[("acme", "eu"), ("umbrella", "us")]).await).await;
    door.wait_for_cell("us", true).await;
    let acme = eu.create_master_key("acme").await;
    let umbrella = us.create_master_key("umbrella").await;
    let view = || json!({"name": "new", "filter": {"status": "open"}}).to_string();
    let create =
        async |key: &str| door.send(door.request(Method::POST, "/v1/group-views", key).body(view())).await;
    expect_away(create(&acme).await);
    assert_eq!(eu.number("SELECT count(*) FROM group_views").await, 0);
    create(&umbrella).await.expect_status(201);
    door.stop().await;
    eu.stop().await;
    us.stop().await;
}
