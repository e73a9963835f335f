//! What does not exist costs what is another's costs: the same questions to the database, so that the
//! time of an answer tells nothing. Questions are counted on their way, since times are not exact. Every
//! operation that names a thing is asked.

use crate::cases::{Case, Foreign, absent, attempt, cases, document, operations};
use crate::reports::{A, B, crash, store};
use crate::signals::{captures, sessions};
use crate::statements::Statements;
use crate::world::Browser;
use crate::world::{World, wait_until};
use reqwest::Method;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use unslide_api::RequestLimits;
use unslide_model::Secret;
use unslide_store::Uuid;

/// What a statement has in it that the api sends twice a second while requests come.
const BY_THE_CLOCK: &str = "-- refresh";

/// What went through.
#[derive(Default)]
pub struct Passed {
    statements: AtomicUsize,
    /// How often each statement was sent, by its text.
    texts: Mutex<Statements>,
    /// How often an answer is asked for.
    turns: AtomicUsize,
    /// Bytes of the database's answers.
    answered: AtomicUsize,
    /// The client's ports of connections with a statement or a transaction that has not ended.
    busy: Mutex<BTreeSet<u16>>,
}

/// Stands between the api and its database, and counts.
async fn count(listener: TcpListener, server: String, passed: Arc<Passed>) {
    while let Ok((client, peer)) = listener.accept().await {
        let (server, passed, port) = (server.clone(), passed.clone(), peer.port());
        tokio::spawn(async move {
            let server = TcpStream::connect(server).await.unwrap();
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let (answers, asks) = server.into_split();
            let (questions, client) = client.into_split();
            let counted = passed.clone();
            // Both end with either connection.
            tokio::spawn(async move { back(answers, client, &counted, port).await });
            let _ = forward(questions, asks, &passed, port).await;
            passed.busy.lock().unwrap().remove(&port);
        });
    }
}

impl Passed {
    fn count(&self, kind: u8, text: &Arc<str>) {
        // A statement by itself, or the running of a prepared one.
        if kind == b'Q' || kind == b'E' {
            self.statements.fetch_add(1, Ordering::SeqCst);
            self.texts.lock().unwrap().add(text);
        }
        // Each is answered with ReadyForQuery.
        if kind == b'Q' || kind == b'S' {
            self.turns.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The statements of a request, by their texts.
    pub async fn trace_request(&self, request: impl Future<Output = ()>) -> Statements {
        self.settled().await;
        let before = self.texts.lock().unwrap().clone();
        request.await;
        self.settled().await;
        self.texts.lock().unwrap().subtract(&before)
    }

    /// The statements and turns so far, once no connection is busy: a transaction that was given up is rolled
    /// back after the answer.
    pub async fn settled(&self) -> (usize, usize) {
        let is_settled = wait_until(async || self.busy.lock().unwrap().is_empty()).await;
        assert!(is_settled, "a transaction does not end");
        (self.statements.load(Ordering::SeqCst), self.turns.load(Ordering::SeqCst))
    }
}

/// Reads a whole message. Its length ends its head (PostgreSQL's protocol, message formats).
async fn read_message(from: &mut OwnedReadHalf, head: usize) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; head];
    from.read_exact(&mut message).await?;
    let length = i32::from_be_bytes(*message.last_chunk().unwrap());
    message.resize(head + usize::try_from(length - 4).unwrap_or(0), 0);
    from.read_exact(&mut message[head..]).await?;
    Ok(message)
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    passed: &Passed,
    port: u16,
) -> std::io::Result<()> {
    // The first message has no kind.
    to.write_all(&read_message(&mut from, 4).await?).await?;
    // The texts of prepared statements by their names, and the text of the statement that runs next.
    let mut prepared: BTreeMap<Vec<u8>, Arc<str>> = BTreeMap::new();
    let mut next: Arc<str> = Arc::default();
    let to_text = |bytes: &[u8]| Arc::from(String::from_utf8_lossy(bytes));
    loop {
        let message = read_message(&mut from, 5).await?;
        let mut texts = message[5..].split(|byte| *byte == 0);
        let (first, second) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        match message[0] {
            // Parse: the statement's name and its text.
            b'P' => {
                next = to_text(second);
                prepared.insert(first.to_vec(), next.clone());
            }
            // Bind: the portal's name and the statement's.
            b'B' => next = prepared.get(second).cloned().unwrap_or_default(),
            b'Q' => next = to_text(first),
            _ => {}
        }
        passed.busy.lock().unwrap().insert(port);
        if !next.contains(BY_THE_CLOCK) {
            passed.count(message[0], &next);
        }
        to.write_all(&message).await?;
    }
}

async fn back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    passed: &Passed,
    port: u16,
) -> std::io::Result<()> {
    loop {
        let message = read_message(&mut from, 5).await?;
        passed.answered.fetch_add(message.len(), Ordering::SeqCst);
        // ReadyForQuery, outside of a transaction.
        if message[0] == b'Z' && message[5..] == *b"I" {
            passed.busy.lock().unwrap().remove(&port);
        }
        to.write_all(&message).await?;
    }
}

/// A world with counted round trips to the database.
pub async fn counted(change: impl FnOnce(&mut RequestLimits)) -> (World, Arc<Passed>) {
    let passed = Arc::new(Passed::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // What features do by themselves would be counted among the requests' own.
    let world = World::still(|config| {
        change(&mut config.api.limits);
        // A request is repeated until it costs nothing.
        config.tenants.symbolication_units_per_second = 1_000_000;
        let url = config.postgres.url.reveal().to_owned();
        let (front, path) = url.rsplit_once('/').unwrap();
        let (login, server) = front.rsplit_once('@').unwrap();
        tokio::spawn(count(listener, server.to_owned(), passed.clone()));
        config.postgres.url = Secret::new(format!("{login}@{address}/{path}?sslmode=disable"));
    })
    .await;
    (world, passed)
}

/// Proves: isolation
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_anothers_costs_what_nothing_costs() {
    let (world, passed) = counted(|_| {}).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let (cases, operations) = (cases(&world, &acme).await, operations(&document()));
    // Until the keys' use is noted, which happens beside the requests.
    world.get("/v1/symbols", &umbrella).await.expect_status(200);
    while world
        .number(
            "SELECT count(*) FROM keys WHERE name = 'test' AND revoked_at IS NULL AND last_used_at IS NULL",
        )
        .await
        > 0
    {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let mut measured = 0;
    for (id, method, template, _) in &operations {
        let there = &cases[id.as_str()];
        // Others name nothing that could be another tenant's.
        let Foreign::NotFound = there.foreign else { continue };
        let never = absent(template, there);
        let cost = async |case: &Case| {
            let (before, _) = passed.settled().await;
            attempt(&world, method, case, &umbrella).await.expect_problem(404, "not-found");
            passed.settled().await.0 - before
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

/// A report with `images` images, each with a frame.
pub fn with_images(id: &str, images: u64) -> serde_json::Value {
    let mut crash = crash(id, "1.0");
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

/// The statements and turns of one request: the least of several, as something that is done beside requests may fall
/// into one.
async fn least(passed: &Passed, mut request: impl AsyncFnMut()) -> (usize, usize) {
    let mut least = (usize::MAX, usize::MAX);
    for _ in 0..4 {
        let before = passed.settled().await;
        request().await;
        let after = passed.settled().await;
        least = least.min((after.0 - before.0, after.1 - before.1));
    }
    least
}

/// Key, tenant, rules and symbols are known: by caches that changes invalidate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_costs_no_statement_however_many_images_it_has() {
    let (world, passed) = counted(|_| {}).await;
    let acme = world.create_master_key("acme").await;
    for (path, images, status) in
        [("/v1/symbolicate", 1, 200), ("/v1/symbolicate", 40, 200), ("/v1/reports", 40, 202)]
    {
        let request = async || {
            let answer = world.post_json(path, &acme, &with_images(A, images)).await.expect_status(status);
            let asked = answer["symbolication"]["images"].as_array().map_or(0, Vec::len);
            assert!(status != 200 || asked as u64 == images, "{answer}");
        };
        assert_eq!(least(&passed, request).await, (0, 0), "{path} with {images} images");
    }
    assert!(passed.settled().await.0 > 0, "the proxy counts");
    world.stop().await;
}

/// An upload that some objects were found in, and sessions of as many versions.
async fn fill(world: &World, upload: &str, rows: u64) {
    let objects = format!(
        "INSERT INTO objects (tenant, content_hash, name, arch, kind, size, status, created_at, updated_at)
         SELECT 'acme', sha256(n::text::bytea), 'Shop', 'arm64', 'dsym', 1, 'ready', now(), now()
         FROM generate_series(1, {rows}) AS n ON CONFLICT DO NOTHING;
         INSERT INTO upload_objects (tenant, upload_id, content_hash, path, known)
         SELECT 'acme', '{upload}', sha256(n::text::bytea), n::text, false
         FROM generate_series(1, {rows}) AS n ON CONFLICT DO NOTHING"
    );
    world.execute(&objects).await;
    let event = |n: u64| {
        let mut event = sessions::now(world, &format!("s{n}"));
        event["version"] = format!("1.{n}").into();
        event
    };
    sessions::store(world, "acme", &(1..=rows).map(event).collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_costs_the_same_statements_however_many_rows_there_are() {
    let (world, passed) = counted(|_| {}).await;
    let acme = world.create_master_key("acme").await;
    let file = b"\xcf\xfa\xed\xfe some bytes".to_vec();
    let upload = world.post("/v1/symbols", &acme, file).await.expect_status(202)["id"].clone();
    let upload = upload.as_str().unwrap();
    let cost = async |path: &str| {
        least(&passed, async || drop(world.get(path, &acme).await.expect_status(200))).await.0
    };
    let mut costs = Vec::new();
    for (id, rows) in [(A, 1), (B, 40)] {
        store(&world, "acme", &with_images(id, rows), 1, world.host.clock.now()).await;
        fill(&world, upload, rows).await;
        let paths = [
            format!("/v1/reports/{id}/explain"),
            format!("/v1/symbols/uploads/{upload}"),
            "/v1/apps/com.example.shop/health".to_owned(),
        ];
        let mut of_rows = Vec::new();
        for path in paths {
            of_rows.push(cost(&path).await);
        }
        costs.push(of_rows);
    }
    assert!(costs[0].iter().all(|statements| *statements > 0), "the proxy counts");
    assert_eq!(costs[0], costs[1]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_captures_are_looked_up_only_for_one_with_an_analysis() {
    let (world, passed) = counted(|_| {}).await;
    let acme = world.create_master_key("acme").await;
    let analysed = captures::analysed(&world, "acme", &acme).await;
    let path = "/v1/captures?app=com.example.shop&version=1.0&kind=profile";
    let waiting = world.post(path, &acme, "main;wait 1\n").await.expect_status(202)["id"].clone();
    let browser = Browser::signed_in(&world, &acme).await;
    let cost = async |id: &str| {
        let page = format!("/console/captures/{id}");
        least(&passed, async || drop(browser.fetch_page(&page).await)).await.0
    };
    let (of_waiting, of_analysed) = (cost(waiting.as_str().unwrap()).await, cost(&analysed).await);
    assert!(of_waiting > 0 && of_waiting < of_analysed, "{of_waiting} and {of_analysed}");
    world.stop().await;
}

/// A body that is not answered costs no more than its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_read_where_it_is_wanted_and_has_room() {
    let (world, passed) = counted(|limits| {
        (limits.answer_bytes, limits.tenant_share, limits.answer_stall_seconds) = (64 << 20, 50, 600);
    })
    .await;
    let acme = world.create_master_key("acme").await;
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
