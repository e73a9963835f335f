//! Clients that take what they can and give nothing: others are answered meanwhile.

use crate::limits::shares::until_locks;
use crate::reports::{A, crash, store};
use crate::world::{World, report_json, slow_body};
use futures::future::join_all;
use reqwest::Method;
use serde_json::json;

const REQUESTS: &str = r#"unslide_api_in_flight{kind="requests"}"#;
const BODIES: &str = r#"unslide_api_body_bytes{kind="reports"}"#;

/// An operator stops the tenant.
async fn suspend(world: &World, operator: &str) {
    let change = json!({"state": "suspended"});
    let request = world.request(Method::PATCH, "/v1/tenants/acme", operator).body(change.to_string());
    assert_eq!(world.send(request).await.expect_status(200)["state"], "suspended");
}

/// Bodies of 32 MiB that are announced and do not come: together they are as large as all bodies may be.
#[tokio::test]
async fn announced_bodies_take_no_room_from_others() {
    let world = World::with(|limits| limits.tenant_share = 100).await;
    let (acme, operator) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let (senders, bodies): (Vec<_>, Vec<_>) = (0..32).map(|_| slow_body()).unzip();
    let attacks = join_all(bodies.into_iter().map(|body| {
        let request = world.request(Method::POST, "/v1/reports", &acme);
        world.send(request.header("content-length", 32 << 20).body(body))
    }));
    let asking = async {
        for sender in &senders {
            sender.unbounded_send(Ok(b"{".to_vec())).unwrap();
        }
        world.wait_for_metric(REQUESTS, 32.0).await;
        world.wait_for_metric(BODIES, f64::from(32 << 10)).await;
        world.post_json("/v1/reports", &operator, &report_json(A)).await.expect_status(202);
        suspend(&world, &operator).await;
    };
    tokio::select! {
        _ = attacks => panic!("the bodies have not come"),
        () = asking => {}
    }
    world.stop().await;
}

/// More sign-ins than there may be requests, operators' included: their forms do not come.
/// Proves: fairness
#[tokio::test]
async fn forms_without_a_key_that_do_not_come_take_no_request_from_others() {
    let world = World::with(|limits| limits.requests = 2).await;
    let acme = world.create_master_key("acme").await;
    let (senders, bodies): (Vec<_>, Vec<_>) = (0..32).map(|_| slow_body()).unzip();
    let attacks = join_all(bodies.into_iter().map(|body| {
        let request = world.request(Method::POST, "/console/sign-in", "");
        let request = request.header("sec-fetch-site", "same-origin");
        world.send(request.header("content-length", 100).body(body))
    }));
    let asking = async {
        for sender in &senders {
            sender.unbounded_send(Ok(b"k".to_vec())).unwrap();
        }
        for _ in 0..100 {
            world.get("/v1/symbols", &acme).await.expect_status(200);
        }
    };
    let (answers, ()) = tokio::join!(attacks, asking);
    for answer in answers {
        assert_eq!(answer.status.as_u16(), 408, "{}", answer.text);
    }
    world.stop().await;
}

#[tokio::test]
async fn operators_are_answered_where_tenants_hold_all_requests_and_all_room() {
    let world = World::with(|limits| {
        (limits.requests, limits.tenant_share, limits.bodies) = (2, 100, 1);
        (limits.ingest_bytes, limits.ingest_unpacked_bytes) = (2_048, 2_048);
    })
    .await;
    let (acme, operator) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let ((first, one), (second, two)) = (slow_body(), slow_body());
    let hold = async |body| world.post("/v1/reports", &acme, body).await;
    let asking = async {
        for sender in [&first, &second] {
            sender.unbounded_send(Ok(b"{".to_vec())).unwrap();
        }
        world.wait_for_metric(BODIES, 2_048.0).await;
        world.get("/v1/symbols", &operator).await.expect_problem(503, "overloaded");
        suspend(&world, &operator).await;
    };
    tokio::select! {
        _ = futures::future::join(hold(one), hold(two)) => panic!("the bodies have not ended"),
        () = asking => {}
    }
    world.stop().await;
}

#[tokio::test]
async fn operators_are_answered_where_tenants_hold_all_connections_to_the_database() {
    let world = World::configured(|config| {
        (config.postgres.max_connections, config.api.limits.tenant_share) = (4, 100);
        config.api.limits.request_seconds = 300;
    })
    .await;
    let (acme, operator) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let mut locking = world.connect().await;
    sqlx::query("BEGIN").execute(&mut locking).await.unwrap();
    sqlx::query("SELECT 1 FROM report_keys FOR UPDATE").execute(&mut locking).await.unwrap();
    let path = format!("/v1/reports/{A}");
    let asking = async {
        until_locks(&world, 2).await;
        world.wait_for_metric(REQUESTS, 8.0).await;
        world.get("/v1/tenants", &operator).await.expect_status(200);
        suspend(&world, &operator).await;
    };
    tokio::select! {
        _ = join_all((0..8).map(|_| world.delete(&path, &acme))) => panic!("the report is locked"),
        () = asking => {}
    }
    sqlx::query("ROLLBACK").execute(&mut locking).await.unwrap();
    sqlx::Connection::close(locking).await.unwrap();
    world.stop().await;
}
