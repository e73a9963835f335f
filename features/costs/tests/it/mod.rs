//! The operation and the page.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use unslide_costs::{Config, Prices};
use unslide_model::{ResourceUse, ResourceUses, Scope, TenantId};
use unslide_store::resource_uses::add_uses;
use unslide_world::{Browser, World};

async fn start(prices: Prices) -> World {
    let mut config = Config::default();
    config.api.costs = prices;
    let features = [unslide_costs::feature(config), unslide_console::feature()];
    World::start(unslide_feature::for_api(&features), |_| {}).await
}

fn uses(rows: &[(Option<&str>, u64)]) -> ResourceUses {
    let row = |(tenant, hours): &(Option<&str>, u64)| {
        let tenant = tenant.map(|slug| TenantId::new(slug).unwrap());
        (tenant, ResourceUse { cpu_micros: hours * 3_600_000_000, stored: *hours, ..ResourceUse::default() })
    };
    rows.iter().map(row).collect()
}

#[tokio::test]
async fn an_operator_sees_what_each_tenant_costs_and_that_it_adds_up() {
    let world = start(Prices { currency: "EUR".to_owned(), cpu_hour: 0.25, ..Prices::default() }).await;
    let operator = world.create_key("acme", &[Scope::Operator]).await;
    world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    add_uses(world.store.clone(), uses(&[(Some("acme"), 6), (Some("umbrella"), 3), (None, 1)]))
        .await
        .unwrap();
    let listed = world.get("/v1/costs?limit=2", &operator).await.expect_status(200);
    let items = listed["items"].as_array().unwrap();
    assert_eq!((&items[0]["tenant"], &items[0]["price"]), (&"acme".into(), &1.5.into()));
    assert_eq!((&items[1]["tenant"], &items[1]["stored"]), (&"umbrella".into(), &3.into()));
    let next = format!("/v1/costs?limit=2&cursor={}", listed["next_cursor"].as_str().unwrap());
    let rest = world.get(&next, &operator).await.expect_status(200);
    assert_eq!(
        (&rest["items"][0]["tenant"], &rest["items"][0]["price"]),
        (&serde_json::Value::Null, &0.25.into())
    );
    assert_eq!(rest["next_cursor"], serde_json::Value::Null);
    let one = world.get("/v1/costs?tenant=umbrella", &operator).await.expect_status(200);
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    for (wrong, why) in
        [("from=yesterday", "a day such as"), ("from=2026-11-02&to=2026-11-01", "lies before")]
    {
        let answer = world.get(&format!("/v1/costs?{wrong}"), &operator).await;
        let detail = answer.expect_problem(400, "invalid-parameter");
        assert!(detail.contains(why), "{detail}");
    }
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    world.get("/v1/costs", &admin).await.expect_problem(403, "insufficient-scope");
    let page = Browser::signed_in(&world, &operator).await.fetch_page("/console/costs?days=7").await;
    for words in ["6.0 h", "60.0 %", "EUR", "1.50", "not attributed", "2.50"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    world.stop().await;
}

#[tokio::test]
async fn without_prices_there_are_amounts_only() {
    let world = start(Prices::default()).await;
    let operator = world.create_key("acme", &[Scope::Operator]).await;
    let browser = Browser::signed_in(&world, &operator).await;
    assert!(browser.fetch_page("/console/costs?days=1").await.contains("Nothing was used in these days"));
    add_uses(world.store.clone(), uses(&[(Some("acme"), 1)])).await.unwrap();
    let listed = world.get("/v1/costs", &operator).await.expect_status(200);
    assert_eq!(listed["items"][0].get("price"), None);
    assert!(!browser.fetch_page("/console/costs").await.contains("Price</th>"));
    world.stop().await;
}
