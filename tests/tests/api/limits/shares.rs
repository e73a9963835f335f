//! A tenant that uses up its own share gets a clear error, and another finds the rest.
//! Proves: fairness

use crate::cases::{attempt, cases, document, operations};
use crate::reports::{A, crash, store};
use crate::world::{Answer, World, pad_json, report_json, slow_body, tenant_id, wait_until};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use unslide_model::{ContentHash, DebugId, Quality};
use unslide_store::slots;

const REQUESTS: &str = r#"unslide_api_in_flight{kind="requests"}"#;
const UPLOADS: &str = r#"unslide_api_in_flight{kind="uploads"}"#;
const WAITS: &str = r#"unslide_api_in_flight{kind="waits"}"#;
const LETTERS: &str = r#"unslide_api_in_flight{kind="dead_letters"}"#;
const ANSWERS: &str = r#"unslide_api_body_bytes{kind="answers"}"#;
const BODIES: &str = r#"unslide_api_body_bytes{kind="reports"}"#;

/// The tenant has used up its share of this.
fn busy(answer: Answer, of: &str) {
    assert_eq!(answer.headers["retry-after"], "1");
    let detail = answer.expect_problem(429, "tenant-busy");
    assert!(detail.starts_with(&format!("Too many concurrent {of}")), "{detail}");
}

#[tokio::test]
async fn requests_of_one_tenant_leave_room_for_another() {
    let world = World::with(|limits| (limits.requests, limits.tenant_share) = (4, 50)).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let ((first, one), (second, two)) = (slow_body(), slow_body());
    let hold = async |body| world.post("/v1/symbols/check", &acme, body).await;
    for sender in [&first, &second] {
        sender.unbounded_send(Ok(b"{".to_vec())).unwrap();
    }
    let asking = async {
        // Both are known to be the tenant's once their bodies are read.
        world.wait_for_metric(BODIES, 2_048.0).await;
        assert_eq!(world.read_metric(REQUESTS), 2.0);
        busy(world.get("/v1/symbols", &acme).await, "requests");
        world.get("/v1/symbols", &umbrella).await.expect_status(200);
        assert_eq!(world.read_metric(r#"unslide_api_refused_total{limit="requests"}"#), 1.0);
        for sender in [first, second] {
            sender.unbounded_send(Ok(b"}".to_vec())).unwrap();
        }
    };
    let (one, two, ()) = tokio::join!(hold(one), hold(two), asking);
    one.expect_problem(400, "invalid-body");
    two.expect_problem(400, "invalid-body");
    world.get("/v1/symbols", &acme).await.expect_status(200);
    world.stop().await;
}

/// A request that waits takes no slot of those that run, and waiting has a bound of its own.
#[tokio::test]
async fn waits_of_one_tenant_hold_no_request_and_leave_room_for_another() {
    let world = World::with(|limits| {
        (limits.requests, limits.waits, limits.tenant_share) = (2, 4, 50);
    })
    .await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let upload = async |key| {
        let upload = world.post("/v1/symbols", key, b"\xcf\xfa\xed\xfe".to_vec()).await.expect_status(202);
        format!("/v1/symbols/uploads/{}?wait=", upload["id"].as_str().unwrap())
    };
    let (acmes, umbrellas) = (upload(&acme).await, upload(&umbrella).await);
    let long = format!("{acmes}60s");
    let waiting = futures::future::join(world.get(&long, &acme), async {
        // One after the other: while they begin, a tenant's one slot has to do.
        world.wait_for_metric(WAITS, 1.0).await;
        world.wait_for_metric(REQUESTS, 0.0).await;
        world.get(&long, &acme).await
    });
    let asking = async {
        world.wait_for_metric(WAITS, 2.0).await;
        world.wait_for_metric(REQUESTS, 0.0).await;
        busy(world.get(&long, &acme).await, "waiting requests");
        world.get(&acmes.replace("?wait=", ""), &acme).await.expect_status(200);
        world.get(&format!("{umbrellas}100ms"), &umbrella).await.expect_status(200);
    };
    tokio::select! {
        _ = waiting => panic!("nothing builds the upload"),
        () = asking => {}
    }
    // The clients are gone, and what they held is free.
    world.wait_for_metric(WAITS, 0.0).await;
    world.stop().await;
}

#[tokio::test]
async fn uploads_of_one_tenant_leave_room_for_another() {
    let world = World::with(|limits| (limits.uploads, limits.tenant_share) = (2, 50)).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let file = || b"\xcf\xfa\xed\xfe second".to_vec();
    let (more, body) = slow_body();
    more.unbounded_send(Ok(b"\xcf\xfa\xed\xfe first".to_vec())).unwrap();
    let asking = async {
        world.wait_for_metric(UPLOADS, 1.0).await;
        busy(world.post("/v1/symbols", &acme, file()).await, "uploads");
        world.post("/v1/symbols", &umbrella, file()).await.expect_status(202);
        // What operators upload counts for the tenant of their key.
        busy(world.post("/v1/system/symbols", &acme, file()).await, "uploads");
        more.close_channel();
    };
    let (first, ()) = tokio::join!(world.post("/v1/symbols", &acme, body), asking);
    first.expect_status(202);
    world.wait_for_metric(UPLOADS, 0.0).await;
    world.stop().await;
}

#[tokio::test]
async fn bodies_of_one_tenant_leave_room_for_another() {
    let world = World::with(|limits| {
        (limits.bodies, limits.tenant_share) = (2, 50);
        (limits.ingest_bytes, limits.ingest_unpacked_bytes) = (1 << 20, 1 << 20);
    })
    .await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let (more, body) = slow_body();
    let asking = async {
        let one = report_json(A).to_string();
        more.unbounded_send(Ok(pad_json(&one, (1 << 20) - 1))).unwrap();
        world.wait_for_metric(BODIES, f64::from(1 << 20)).await;
        busy(world.post("/v1/reports", &acme, one.clone()).await, "request bodies");
        busy(world.post("/v1/symbolicate", &acme, one.clone()).await, "request bodies");
        busy(world.post("/v1/symbols/check", &acme, "{}").await, "request bodies");
        world.post("/v1/reports", &umbrella, one.clone()).await.expect_status(202);
        more.unbounded_send(Ok(b" ".to_vec())).unwrap();
        more.close_channel();
    };
    let (held, ()) = tokio::join!(world.post("/v1/reports", &acme, body), asking);
    held.expect_status(202);
    world.wait_for_metric(BODIES, 0.0).await;
    world.stop().await;
}

#[tokio::test]
async fn symbolications_of_one_tenant_are_paced_and_anothers_are_not() {
    let world = World::configured(|config| config.tenants.symbolication_units_per_second = 1).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let explain = format!("/v1/reports/{A}/explain");
    let mut refused = world.get(&explain, &acme).await;
    for _ in 0..200 {
        if refused.status == 429 {
            break;
        }
        refused = world.get(&explain, &acme).await;
    }
    assert!(refused.headers.contains_key("retry-after"));
    let detail = refused.expect_problem(429, "rate-limited");
    assert!(detail.contains("symbolication_units_per_second is 1"), "{detail}");
    world.get(&explain, &umbrella).await.expect_problem(404, "not-found");
    world.post("/v1/symbolicate", &umbrella, report_json(A).to_string()).await.expect_status(200);
    // Both count as one.
    for _ in 0..200 {
        let answer = world.post("/v1/symbolicate", &umbrella, "{}").await;
        if answer.status == 429 {
            answer.expect_problem(429, "rate-limited");
            world.stop().await;
            return;
        }
    }
    panic!("symbolicating is not paced");
}

/// A bucket that is there, tells which symcaches it is asked for, and does not answer that.
async fn hanging_bucket(listener: TcpListener, asked: mpsc::UnboundedSender<String>) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let asked = asked.clone();
        tokio::spawn(async move {
            let mut head = vec![0; 16 << 10];
            let read = socket.read(&mut head).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            if head.contains("/symcache-") {
                asked.send(head.lines().next().unwrap_or_default().to_owned()).unwrap();
                std::future::pending::<()>().await;
            }
            let body = "<ListBucketResult><Name>unslide-test</Name><KeyCount>0</KeyCount></ListBucketResult>";
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-length: {length}\r\n");
            socket.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await.ok();
        });
    }
}

/// A crash with a frame in each of two images. The database knows their symbols.
async fn two_images(world: &World, of: &str) -> Value {
    let mut crash = crash(A, "1.0");
    let (image, frame) =
        (crash["binary_images"][0].clone(), crash["crash"]["threads"][0]["backtrace"]["contents"][0].clone());
    let (mut images, mut frames) = (Vec::new(), Vec::new());
    for (n, id) in ["c0ffee00-0000-0000-0000-000000000001", "c0ffee00-0000-0000-0000-000000000002"]
        .into_iter()
        .enumerate()
    {
        let load = 0x1_0000_0000_u64 * (n as u64 + 1);
        let (mut image, mut frame) = (image.clone(), frame.clone());
        (image["uuid"], image["image_addr"], image["image_vmaddr"]) = (id.into(), load.into(), load.into());
        (frame["instruction_addr"], frame["object_addr"]) = ((load + 0x1000).into(), load.into());
        images.push(image);
        frames.push(frame);
        let published = slots::PublishedSymbols {
            debug_id: id.parse::<DebugId>().unwrap(),
            quality: Quality::DwarfSymtab,
            content_hash: ContentHash([3; 32]),
            symcache_version: 1,
            generation: 1,
        };
        let mut tx = world.store.tenant(&tenant_id(of)).await.unwrap();
        slots::publish_symbols(&mut tx, &published).await.unwrap();
        tx.commit().await.unwrap();
    }
    crash["binary_images"] = images.into();
    crash["crash"]["threads"][0]["backtrace"]["contents"] = frames.into();
    crash
}

#[tokio::test]
async fn symbols_that_one_tenant_fetches_leave_room_for_another() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (asked, mut asks) = mpsc::unbounded_channel();
    let bucket = tokio::spawn(hanging_bucket(listener, asked));
    let world = World::configured(|config| {
        config.objects.endpoint = Some(endpoint);
        (config.symcaches.downloads, config.api.limits.tenant_share) = (2, 50);
    })
    .await;
    let ask = async |of: &str| {
        let (key, crash) = (world.create_master_key(of).await, two_images(&world, of).await);
        world.send(world.request(Method::POST, "/v1/symbolicate", &key).body(crash.to_string())).await
    };
    let mut next =
        async || tokio::time::timeout(Duration::from_secs(120), asks.recv()).await.unwrap().unwrap();
    let telling = async {
        let first = next().await;
        assert!(first.contains("/t/acme/"), "{first}");
        let theirs = async {
            let second = next().await;
            assert!(second.contains("/t/umbrella/"), "{second}");
        };
        tokio::select! {
            _ = ask("umbrella") => panic!("the bucket does not answer"),
            () = theirs => {}
        }
    };
    tokio::select! {
        _ = ask("acme") => panic!("the bucket does not answer"),
        () = telling => {}
    }
    world.stop().await;
    bucket.abort();
}

#[tokio::test]
async fn answers_to_one_tenant_leave_room_for_another() {
    let world = World::with(|limits| {
        (limits.answer_bytes, limits.tenant_share, limits.answer_stall_seconds) = (64 << 20, 50, 600);
    })
    .await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let mut large = crash(A, "1.0");
    large["user"] = "x".repeat(18_000_000).into();
    for of in ["acme", "umbrella"] {
        store(&world, of, &large, 1, world.host.clock.now()).await;
    }
    let path = format!("/v1/reports/{A}");
    // What is not read to its end stays where it is.
    let unread = world.request(Method::GET, &path, &acme).send().await.unwrap();
    assert_eq!(unread.status().as_u16(), 200);
    assert!(world.read_metric(ANSWERS) > 18e6);
    busy(world.get(&path, &acme).await, "answers");
    world.get(&path, &umbrella).await.expect_status(200);
    drop(unread);
    world.wait_for_metric(ANSWERS, 0.0).await;
    world.get(&path, &acme).await.expect_status(200);
    world.stop().await;
}

/// Whatever one tenant asks of dead letters, another's reader finds a place.
#[tokio::test]
async fn letters_that_one_tenant_reads_leave_a_reader_for_another() {
    let world = World::with(|limits| (limits.letters, limits.tenant_share) = (2, 50)).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let letter =
        async |reason| crate::dead_letters::letter(&world, Some("acme"), reason, None, Some(b"{")).await;
    letter("not_json").await;
    let other = letter("too_deep").await;
    // A replay holds its reader while the dead letter's row is locked.
    let mut locking = world.connect().await;
    sqlx::query("BEGIN").execute(&mut locking).await.unwrap();
    sqlx::query("SELECT 1 FROM dead_letters WHERE reason = 'not_json' FOR UPDATE")
        .execute(&mut locking)
        .await
        .unwrap();
    let body = format!("/v1/dead-letters/{other}/body");
    let which = json!({"reason": "not_json"});
    let replaying = world.post_json("/v1/dead-letters/replay", &acme, &which);
    let asking = async {
        world.wait_for_metric(LETTERS, 1.0).await;
        let own = world.get(&body, &acme);
        let others = async {
            world.wait_for_metric(r#"unslide_api_waiting{kind="dead_letters"}"#, 1.0).await;
            let any = body.replace("/v1/", "/v1/operator/");
            assert_eq!(world.get(&any, &umbrella).await.text, "{");
            sqlx::query("ROLLBACK").execute(&mut locking).await.unwrap();
            sqlx::Connection::close(locking).await.unwrap();
        };
        let (own, ()) = tokio::join!(own, others);
        assert_eq!(own.text, "{");
    };
    let (replayed, ()) = tokio::join!(replaying, asking);
    assert_eq!(replayed.expect_status(200)["replayed"], 1);
    assert_eq!(world.read_metric(r#"unslide_api_waiting{kind="dead_letters"}"#), 0.0);
    world.stop().await;
}

/// A request that began a second transaction within its first would wait for itself.
#[tokio::test]
async fn every_operation_does_with_one_connection_of_its_tenant() {
    let world = World::configured(|config| {
        (config.api.limits.tenant_share, config.api.limits.request_seconds) = (1, 50);
    })
    .await;
    let key = world.create_master_key("acme").await;
    let (cases, mut operations) = (cases(&world, &key).await, operations(&document()));
    // What a case deletes, another reads.
    operations.sort_by_key(|(_, method, ..)| *method == Method::DELETE);
    for (id, method, ..) in &operations {
        let answer = attempt(&world, method, &cases[id.as_str()], &key).await;
        let served = !answer.status.is_server_error() && answer.status.as_u16() != 429;
        assert!(served, "{id}: {} {}", answer.status, answer.text);
    }
    world.stop().await;
}

/// One tenant's transactions wait for a lock in the database, and others are answered meanwhile.
#[tokio::test]
async fn connections_that_one_tenant_holds_leave_some_for_another() {
    let world = World::configured(|config| {
        (config.postgres.max_connections, config.api.limits.request_seconds) = (4, 300);
    })
    .await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let mut locking = world.connect().await;
    sqlx::query("BEGIN").execute(&mut locking).await.unwrap();
    sqlx::query("SELECT 1 FROM report_keys FOR UPDATE").execute(&mut locking).await.unwrap();
    let path = format!("/v1/reports/{A}");
    let deleting = || futures::future::join_all((0..8).map(|_| world.delete(&path, &acme)));
    // The clients of these requests go away: the database goes on with their statements.
    for turns in [7.0, 8.0, 8.0, 8.0] {
        let waiting = async {
            world.wait_for_metric(REQUESTS, 8.0).await;
            world.wait_for_metric(r#"unslide_api_waiting{kind="connections"}"#, turns).await;
            until_locks(&world, 1).await;
        };
        tokio::select! {
            _ = deleting() => panic!("the report is locked"),
            () = waiting => {}
        }
        world.wait_for_metric(REQUESTS, 0.0).await;
    }
    let asking = async {
        world.wait_for_metric(REQUESTS, 8.0).await;
        for _ in 0..50 {
            world.get("/v1/symbols", &umbrella).await.expect_status(200);
        }
        assert_eq!(world.number(LOCKS).await, 1);
        // One of four connections is the tenant's, and still has the first question.
        world.wait_for_metric(r#"unslide_api_waiting{kind="connections"}"#, 8.0).await;
        sqlx::query("ROLLBACK").execute(&mut locking).await.unwrap();
        sqlx::Connection::close(locking).await.unwrap();
    };
    let (deleted, ()) = tokio::join!(deleting(), asking);
    assert_eq!(deleted.iter().filter(|answer| answer.status == 204).count(), 1);
    world.stop().await;
}

/// A request that is over leaves the database no longer at work than a request may take.
#[tokio::test]
async fn a_statement_takes_no_longer_than_a_request_may() {
    let world = World::with(|limits| limits.request_seconds = 10).await;
    let acme = world.create_master_key("acme").await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let mut locking = world.connect().await;
    sqlx::query("BEGIN").execute(&mut locking).await.unwrap();
    sqlx::query("SELECT 1 FROM report_keys FOR UPDATE").execute(&mut locking).await.unwrap();
    let path = format!("/v1/reports/{A}");
    let (answer, ()) = tokio::join!(world.delete(&path, &acme), until_locks(&world, 1));
    assert!(answer.status.is_server_error(), "{}", answer.status);
    until_locks(&world, 0).await;
    sqlx::query("ROLLBACK").execute(&mut locking).await.unwrap();
    sqlx::Connection::close(locking).await.unwrap();
    world.delete(&path, &acme).await.expect_status(204);
    world.stop().await;
}

/// Statements that wait for a lock.
const LOCKS: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";

pub async fn until_locks(world: &World, number: i64) {
    let is_reached = wait_until(async || world.number(LOCKS).await == number).await;
    assert!(is_reached, "{} statements wait, and not {number}", world.number(LOCKS).await);
}
