//! From a new bug to the receiver of the team that owns its code.

use crate::owners::looks::FILE;
use crate::owners::owner_world::OwnerWorld;
use serde_json::{Value, json};
use unslide_harness::receivers::{HttpAnswer, HttpReceiver};
use unslide_world::wait_until;

#[tokio::test]
async fn a_new_bug_goes_to_the_receiver_of_its_owner() {
    let receiver = HttpReceiver::start(|_, _| HttpAnswer::Status(200, "ok")).await;
    let mut config = unslide_alerts::Config::default();
    config.api.alerts.networks = vec!["127.0.0.0/8".to_owned()];
    config.api.alerts.ports = vec![receiver.port()];
    let world = OwnerWorld::start_with(config).await;
    world.set_root().await.expect_status(200);
    world.upload("", &format!("{FILE}/Sources/None/\n")).await;
    for (path, label) in [("cart", "owner:@acme/cart"), ("kit", "owner:@lee"), ("none", "owner:none")] {
        let rule = json!({"name": path, "condition": "new_group", "labels": [label], "channel": "webhook",
                          "address": format!("{}/{path}", receiver.url())});
        world.post_json("/v1/alert-rules", &world.key, &rule).await.expect_status(201);
    }
    for (n, file) in
        [(1, "Sources/Cart/Cart.swift"), (2, "Sources/Kit/Sum.swift"), (3, "Sources/None/None.swift")]
    {
        world.store_report(n, 1, &[("call", file, false)]).await;
    }
    assert!(wait_until(async || receiver.received().len() >= 3).await, "{:?}", receiver.received());
    let mut sent: Vec<(String, String)> = receiver
        .received()
        .into_iter()
        .map(|request| {
            let body: Value = serde_json::from_str(&request.body).unwrap();
            assert_eq!(body["count"], 1);
            (request.path, body["events"][0]["headline"].as_str().unwrap().to_owned())
        })
        .collect();
    sent.sort();
    let expected = [("/cart", "New: bug 1"), ("/kit", "New: bug 2"), ("/none", "New: bug 3")];
    assert_eq!(sent, expected.map(|(path, headline)| (path.to_owned(), headline.to_owned())));
    world.stop().await;
}
