//! What does not exist costs what is another's costs: the same questions to the database, so that the
//! time of an answer tells nothing. Questions are counted on their way, since times are not exact. Every
//! operation that names a thing is asked.

use crate::cases::{Case, Foreign, absent, attempt, cases, document, operations};
use crate::reports::{A, crash, store};
use crate::world::World;
use reqwest::Method;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use unslide_api::RequestLimits;
use unslide_model::Secret;
use unslide_store::Uuid;

/// The request for TLS that comes before the first message (PostgreSQL's protocol, message formats).
const SSL_REQUEST: i32 = 80_877_103;

/// What went through.
#[derive(Default)]
struct Passed {
    statements: AtomicUsize,
    /// How often an answer is asked for.
    turns: AtomicUsize,
    /// Bytes of the database's answers.
    answered: AtomicUsize,
}

/// Stands between the api and its database, and counts.
async fn count(listener: TcpListener, server: String, passed: Arc<Passed>) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, passed) = (server.clone(), passed.clone());
        tokio::spawn(async move {
            let server = TcpStream::connect(server).await.unwrap();
            let (answers, asks) = server.into_split();
            let (questions, client) = client.into_split();
            let counted = passed.clone();
            // Both end with either connection.
            tokio::spawn(async move { back(answers, client, &counted.answered).await });
            let _ = forward(questions, asks, &passed).await;
        });
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, passed: &Passed) -> std::io::Result<()> {
    let mut started = false;
    loop {
        if started {
            let kind = from.read_u8().await?;
            // A statement by itself, or the running of a prepared one.
            if kind == b'Q' || kind == b'E' {
                passed.statements.fetch_add(1, Ordering::SeqCst);
            }
            // Each is answered with ReadyForQuery.
            if kind == b'Q' || kind == b'S' {
                passed.turns.fetch_add(1, Ordering::SeqCst);
            }
            to.write_u8(kind).await?;
        }
        let length = from.read_i32().await?;
        let mut body = vec![0; usize::try_from(length - 4).unwrap_or(0)];
        from.read_exact(&mut body).await?;
        to.write_i32(length).await?;
        to.write_all(&body).await?;
        to.flush().await?;
        started = started || body.get(..4).is_none_or(|code| code != SSL_REQUEST.to_be_bytes());
    }
}

async fn back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    answered: &AtomicUsize,
) -> std::io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        answered.fetch_add(read, Ordering::SeqCst);
        to.write_all(&piece[..read]).await?;
    }
}

/// A world whose questions to the database are counted.
async fn counted(change: impl FnOnce(&mut RequestLimits)) -> (World, Arc<Passed>) {
    let passed = Arc::new(Passed::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let world = World::configured(|config| {
        change(&mut config.api.limits);
        // It would be counted among the requests' own.
        config.api.alerts.every_millis = 3_600_000;
        let url = config.postgres.url.reveal().to_owned();
        let (front, path) = url.rsplit_once('/').unwrap();
        let (login, server) = front.rsplit_once('@').unwrap();
        tokio::spawn(count(listener, server.to_owned(), passed.clone()));
        config.postgres.url = Secret::new(format!("{login}@{address}/{path}"));
    })
    .await;
    (world, passed)
}

/// The count once nothing more comes: a transaction that was given up is rolled back after the answer.
async fn settled(statements: &AtomicUsize) -> usize {
    loop {
        let before = statements.load(Ordering::SeqCst);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        if statements.load(Ordering::SeqCst) == before {
            return before;
        }
    }
}

/// Proves: isolation
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_anothers_costs_what_nothing_costs() {
    let (world, passed) = counted(|_| {}).await;
    let statements = &passed.statements;
    let (acme, umbrella) = (world.master("acme").await, world.master("umbrella").await);
    let (cases, operations) = (cases(&world, &acme).await, operations(&document()));
    // Until the keys' use is noted, which happens beside the requests.
    world.get("/v1/symbols", &umbrella).await.expect(200);
    while world.number("SELECT count(*) FROM api_keys WHERE name = 'test' AND revoked_at IS NULL AND last_used_at IS NULL").await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let mut measured = 0;
    for (id, method, template, _) in &operations {
        let there = &cases[id.as_str()];
        // Others name nothing that could be another tenant's.
        let Foreign::NotFound = there.foreign else { continue };
        let never = absent(template, there);
        let cost = async |case: &Case| {
            let before = statements.load(Ordering::SeqCst);
            attempt(&world, method, case, &umbrella).await.expect_problem(404, "not-found");
            settled(statements).await - before
        };
        // Once to warm up: a new connection sets itself up.
        cost(&never).await;
        // The least of several: something that is done beside requests may fall into one.
        let (mut foreign, mut absent) = (usize::MAX, usize::MAX);
        for _ in 0..3 {
            foreign = foreign.min(cost(there).await);
            absent = absent.min(cost(&never).await);
        }
        assert!(foreign > 1, "the proxy counts");
        assert_eq!(foreign, absent, "{id}");
        measured += 1;
    }
    assert!(measured > 9, "{measured}");
    world.stop().await;
}

/// A report with so many images, each with a frame.
fn with_images(images: u64) -> serde_json::Value {
    let mut crash = crash(A, "1.0");
    let image = crash["binary_images"][0].clone();
    let frame = crash["crash"]["threads"][0]["backtrace"]["contents"][0].clone();
    for number in 1..images {
        let (mut image, mut frame) = (image.clone(), frame.clone());
        let start = 0x1_0000_0000_u64 + number * 0x10_0000;
        (image["image_addr"], image["uuid"]) =
            (start.into(), Uuid::from_u128(number.into()).to_string().into());
        (frame["object_addr"], frame["instruction_addr"]) = (start.into(), (start + 0x1000).into());
        crash["binary_images"].as_array_mut().unwrap().push(image);
        crash["crash"]["threads"][0]["backtrace"]["contents"].as_array_mut().unwrap().push(frame);
    }
    crash
}

/// The request waits for two answers: the transaction with its tenant, and the symbols with the tenant's rules. The
/// end of the transaction and the pool's look at the connection come beside it. The key was looked up a moment ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_costs_three_statements_however_many_images_it_has() {
    let (world, passed) = counted(|_| {}).await;
    let acme = world.master("acme").await;
    let counts = || (passed.statements.load(Ordering::SeqCst), passed.turns.load(Ordering::SeqCst));
    let cost = async |path: &str, images: u64, status: u16, turns: usize| {
        let mut least = (usize::MAX, usize::MAX);
        for _ in 0..4 {
            let before = counts();
            let answer = world.post_json(path, &acme, &with_images(images)).await.expect(status);
            let asked = answer["symbolication"]["images"].as_array().map_or(0, Vec::len);
            assert!(status != 200 || asked as u64 == images, "{answer}");
            // What comes beside the request may come late.
            for _ in 0..100 {
                if counts().1 - before.1 < turns {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            }
            settled(&passed.turns).await;
            least = least.min((counts().0 - before.0, counts().1 - before.1));
        }
        least
    };
    assert_eq!(cost("/v1/symbolicate", 1, 200, 4).await, (3, 4));
    assert_eq!(cost("/v1/symbolicate", 40, 200, 4).await, (3, 4));
    assert_eq!(cost("/v1/reports", 40, 202, 0).await, (0, 0));
    world.stop().await;
}

/// A body that is not answered costs no more than its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_read_where_it_is_wanted_and_has_room() {
    let (world, passed) = counted(|limits| (limits.answer_bytes, limits.tenant_share) = (64 << 20, 50)).await;
    let acme = world.master("acme").await;
    // Nothing that could be compressed.
    let mut state = 1_u64;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + u8::try_from(state >> 58).unwrap())
    });
    let mut large = crash(A, "1.0");
    large["user"] = letters.take(18_000_000).collect::<String>().into();
    store(&world, "acme", &large, 1, world.host.clock.now()).await;
    let path = format!("/v1/reports/{A}");
    let read = || passed.answered.load(Ordering::SeqCst);
    let before = read();
    // What is not taken keeps its room.
    let unread = world.request(Method::GET, &path, &acme).send().await.unwrap();
    assert_eq!(unread.status().as_u16(), 200);
    assert!(read() - before > 10_000_000, "{}", read() - before);
    let before = read();
    world.get(&path, &acme).await.expect_problem(429, "tenant-busy");
    let has = world.request(Method::GET, &path, &acme).header("if-none-match", &unread.headers()["etag"]);
    assert_eq!(world.send(has).await.status.as_u16(), 304);
    assert!(read() - before < 100_000, "{}", read() - before);
    drop(unread);
    world.stop().await;
}
