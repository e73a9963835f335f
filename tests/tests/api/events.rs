//! The stream of events.

use crate::reports::{A, crash, store};
use crate::world::{World, tenant_id};
use reqwest::{Method, RequestBuilder, Response};
use unslide_model::{ContentHash, Quality, Scope};
use unslide_store::{keys, slots};

const B: &str = "22222222-2222-2222-2222-222222222222";

/// A client that follows events, and what it got so far.
struct Follower {
    response: Response,
    text: String,
}

impl Follower {
    async fn begin(request: RequestBuilder) -> Follower {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Follower { response, text: String::new() }
    }

    async fn until(&mut self, text: &str) {
        while !self.text.contains(text) {
            let piece = self.response.chunk().await.unwrap();
            let piece = piece.unwrap_or_else(|| panic!("the stream ended: {}", self.text));
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// Reads until the stream ends.
    async fn end(mut self) -> String {
        while let Ok(Some(piece)) = self.response.chunk().await {
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
        self.text
    }

    fn last_id(&self) -> String {
        self.text.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned()
    }
}

#[tokio::test]
async fn events_come_as_they_happen_and_a_client_goes_on_where_it_was_cut_off() {
    let world = World::start().await;
    let now = world.host.clock.now();
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let follow = |path: &str| world.request(Method::GET, path, &key);
    store(&world, "acme", &crash("99999999-9999-9999-9999-999999999999", "0.9"), 1, now).await;
    // A transaction of another test on the same server may hold it back.
    Follower::begin(follow("/v1/events?after=0")).await.until("event: group_created").await;
    let mut follower = Follower::begin(follow("/v1/events")).await;
    follower.until("retry: 3000\n\n").await;
    store(&world, "umbrella", &crash(B, "1.0"), 1, now).await;
    store(&world, "acme", &crash(A, "1.0"), 1, now).await;
    follower
        .until("event: reports_stored\ndata: {\"app\":\"com.example.shop\",\"new\":1,\"revised\":0}\n\n")
        .await;
    assert_eq!(follower.text.matches("event: ").count(), 1, "not what was before, and no other tenant's");
    let last = follower.last_id();
    drop(follower);
    let mut hang = crash(B, "1.0");
    hang["crash"]["error"]["type"] = "hang".into();
    store(&world, "acme", &hang, 1, now).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let symbols = slots::PublishedSymbols {
        debug_id: unslide_model::DebugId([7; 16]),
        quality: Quality::Dwarf,
        content_hash: ContentHash([7; 32]),
        symcache_version: 1,
        generation: 0,
    };
    slots::publish_symbols(&mut tx, &symbols).await.unwrap();
    tx.commit().await.unwrap();
    let mut again = Follower::begin(follow("/v1/events").header("last-event-id", &last)).await;
    again.until("event: symbols_ready").await;
    assert_eq!(again.text.matches("event: ").count(), 3, "{}", again.text);
    assert!(again.text.contains("event: group_created") && again.text.contains("\"version\":\"1.0\""));
    // A key for another app sees none of it, and nobody reads what is no id.
    let other = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.other")).await;
    let path = "/v1/events?after=0&seconds=1";
    let none = Follower::begin(world.request(Method::GET, path, &other)).await.end().await;
    assert!(!none.contains("event:"), "{none}");
    for wrong in ["after=now", "after=-1", "after=0-0", "seconds=0", "seconds=3601", "last=1"] {
        let answer = world.get(&format!("/v1/events?{wrong}"), &key).await;
        answer.expect_problem(400, "invalid-parameter");
    }
    // The service's end is the stream's.
    let ending = tokio::spawn(again.end());
    world.stop().await;
    ending.await.unwrap();
}

/// Proves: keys
#[tokio::test]
async fn streams_are_few_and_end_with_the_key() {
    let world = World::start().await;
    let (id, key) = world.make_key("acme", &crate::cases::key_of(&[Scope::ReportsRead], None, None)).await;
    let mut followers = Vec::new();
    for _ in 0..16 {
        followers.push(Follower::begin(world.request(Method::GET, "/v1/events", &key)).await);
    }
    world.get("/v1/events", &key).await.expect_problem(429, "tenant-busy");
    let umbrella = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    let path = "/v1/events?seconds=1";
    Follower::begin(world.request(Method::GET, path, &umbrella)).await.end().await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert!(keys::revoke_key(&mut tx, id, None).await.unwrap());
    tx.commit().await.unwrap();
    for follower in followers {
        follower.end().await;
    }
    world.wait_for_metric("unslide_api_in_flight{kind=\"streams\"}", 0.0).await;
    world.stop().await;
}
