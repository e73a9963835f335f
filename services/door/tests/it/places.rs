//! The cell of a tenant changes.

use crate::test_door::{add_cell, place_tenant};
use crate::two_cells::TwoCells;
use unslide_model::Scope;
use unslide_world::{tenant_id, wait_until};

#[tokio::test]
async fn requests_follow_a_tenant_to_its_new_cell() {
    let cells = TwoCells::start().await;
    let before = cells.eu.create_key("acme", &[Scope::ReportsRead]).await;
    let after = cells.us.create_key("acme", &[Scope::ReportsRead]).await;
    // Both cells have a key of acme, as while it moves: the directory says where it is.
    assert_eq!(cells.status("/v1/reports", &before).await, 200);
    assert_eq!(cells.status("/v1/reports", &after).await, 401);
    place_tenant(&cells.directory, &tenant_id("acme"), "us").await;
    let has_moved = async || cells.status("/v1/reports", &after).await == 200;
    assert!(wait_until(has_moved).await);
    assert_eq!(cells.status("/v1/reports", &before).await, 401);
    cells.stop().await;
}

#[tokio::test]
async fn a_cell_that_moves_to_another_address_keeps_its_tenants() {
    let cells = TwoCells::start().await;
    let key = cells.us.create_key("umbrella", &[Scope::ReportsRead]).await;
    add_cell(&cells.directory, "us", "http://127.0.0.1:1").await;
    let is_away = async || cells.status("/v1/reports", &key).await == 503;
    assert!(wait_until(is_away).await);
    add_cell(&cells.directory, "us", &cells.us.url).await;
    let is_back = async || cells.status("/v1/reports", &key).await == 200;
    assert!(wait_until(is_back).await);
    cells.stop().await;
}

#[tokio::test]
async fn a_tenant_that_the_directory_lacks_is_served_by_the_cell_that_names_it() {
    let cells = TwoCells::start().await;
    let tenant = tenant_id("wayne");
    cells.us.make_tenant(&tenant).await;
    let key = cells.us.create_key("wayne", &[Scope::ReportsRead]).await;
    for _ in 0..2 {
        assert_eq!(cells.status("/v1/reports", &key).await, 200);
    }
    cells.stop().await;
}
