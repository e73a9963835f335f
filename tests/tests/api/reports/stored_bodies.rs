//! Reports with bodies in segments, and reports that are deleted.

use crate::reports::{A, crash, store};
use crate::world::{World, tenant_id};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::segment::{self, BodyId};
use unslide_artifacts::{ObjectStore, Put};
use unslide_model::Scope;
use unslide_store::{Store, segments};

const B: &str = "22222222-2222-2222-2222-222222222222";

/// Moves acme's bodies of this day into one segment, as the indexer does, and puts it with `put`.
async fn move_bodies(store: &Store, day: time::Date, objects: Option<&ObjectStore>) -> ObjectKey {
    let acme = tenant_id("acme");
    let mut tx = store.tenant(&acme).await.unwrap();
    let id = segments::new_id(&mut tx).await.unwrap();
    let key = keys::for_segment(&acme, day, id);
    let begun = segments::begin_segment(&mut tx, id, day, key.as_str()).await.unwrap().unwrap();
    let mut out = segment::SEGMENT_HEADER.to_vec();
    let mut moved = Vec::new();
    for waiting in segments::list_pending_bodies(&mut tx, day, None, 1 << 20).await.unwrap() {
        let segments::PendingBody { received_at, report_id, variant, revision, stored_at, body, .. } =
            waiting;
        let id = BodyId { tenant: acme.clone(), report_id, variant, revision };
        let json = unslide_proto::body::decompress_report(&body, 1 << 20).unwrap();
        let (frame, key) = segment::seal_frame(&id, &json).unwrap();
        let (offset, length) = (out.len() as u64, frame.len() as u64);
        out.extend_from_slice(&frame);
        moved.push(segments::MovedBody {
            received_at,
            report_id,
            variant,
            revision,
            stored_at,
            offset,
            length,
            key,
        });
    }
    if let Some(objects) = objects {
        objects.put(&key, out.into(), &Put::default()).await.unwrap();
    }
    segments::finish_segment(&mut tx, &begun, &moved).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    key
}

#[tokio::test]
async fn a_report_reads_the_same_wherever_its_body_is() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let now = world.host.clock.now();
    for id in [A, B] {
        store(&world, "acme", &crash(id, "1.0"), 1, now).await;
    }
    let all = async |world: &World| {
        let mut answers = Vec::new();
        for id in [A, B] {
            let path = format!("/v1/reports/{id}");
            let json = world.get(&path, &key).await;
            let text = world.request(reqwest::Method::GET, &path, &key).header("accept", "text/plain");
            let text = world.send(text).await;
            let explained = world.get(&format!("{path}/explain"), &key).await.expect_status(200).to_string();
            assert_eq!((json.status.as_u16(), text.status.as_u16()), (200, 200));
            answers.push((json.headers["etag"].clone(), json.text, text.text, explained));
        }
        answers
    };
    let before = all(&world).await;
    let segment = move_bodies(&world.store, now.date(), Some(&world.bucket().await)).await;
    assert_eq!(all(&world).await, before);

    // A client that has its copy needs no body.
    world.bucket().await.delete(&segment).await.unwrap();
    let path = format!("/v1/reports/{A}");
    let same = world.request(reqwest::Method::GET, &path, &key).header("if-none-match", before[0].0.clone());
    assert_eq!(world.send(same).await.status.as_u16(), 304);
    // Nor does a list.
    assert_eq!(world.get("/v1/reports", &key).await.expect_status(200)["items"].as_array().unwrap().len(), 2);
    world.stop().await;
}

/// Proves: replay
#[tokio::test]
async fn a_body_that_is_lost_is_said_to_be_and_never_another_reports() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let now = world.host.clock.now();
    for id in [A, B] {
        store(&world, "acme", &crash(id, "1.0"), 1, now).await;
    }
    let bucket = world.bucket().await;
    let segment = move_bodies(&world.store, now.date(), Some(&bucket)).await;
    let whole = bucket.get(&segment, 1 << 20).await.unwrap().unwrap().bytes;
    let lost = async |expected: &str| {
        world.get(&format!("/v1/reports/{A}"), &key).await.expect_problem(500, "internal");
        world.get(&format!("/v1/reports/{A}/explain"), &key).await.expect_problem(500, "internal");
        let page = world.host.process_metrics().render_page().unwrap();
        let line = page.lines().find(|line| line.starts_with("unslide_api_lost_bodies_total")).unwrap();
        assert!(line.ends_with(expected), "{line}");
    };
    // The other report's frame where this one's ought to be.
    let mut swapped = world.connect().await;
    sqlx::query(
        "UPDATE report_frames f SET (at_offset, length) = (SELECT o.at_offset, o.length FROM report_frames o
         WHERE o.report_id <> f.report_id)",
    )
    .execute(&mut swapped)
    .await
    .unwrap();
    lost(" 2").await;
    sqlx::query(
        "UPDATE report_frames f SET (at_offset, length) = (SELECT o.at_offset, o.length FROM report_frames o
         WHERE o.report_id <> f.report_id)",
    )
    .execute(&mut swapped)
    .await
    .unwrap();
    sqlx::Connection::close(swapped).await.unwrap();
    world.get(&format!("/v1/reports/{A}"), &key).await.expect_status(200);
    // Damage, and no object at all.
    let mut damaged = whole.to_vec();
    damaged.iter_mut().skip(150).take(50).for_each(|byte| *byte ^= 1);
    bucket.put(&segment, damaged.into(), &Put::default()).await.unwrap();
    world.get(&format!("/v1/reports/{A}"), &key).await.expect_problem(500, "internal");
    bucket.delete(&segment).await.unwrap();
    lost(" 5").await;
    world.stop().await;
}

/// A bucket that is there and empty. Before it says so of a segment, it asks to be let go on.
async fn empty_bucket(listener: TcpListener, asked: mpsc::Sender<oneshot::Sender<()>>) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let asked = asked.clone();
        tokio::spawn(async move {
            let mut head = vec![0; 16 << 10];
            let read = socket.read(&mut head).await.unwrap_or(0);
            let (status, body) = if String::from_utf8_lossy(&head[..read]).contains("/segments/") {
                let (go, going) = oneshot::channel();
                asked.send(go).await.unwrap();
                going.await.unwrap();
                ("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>")
            } else {
                (
                    "200 OK",
                    "<ListBucketResult><Name>unslide-test</Name><KeyCount>0</KeyCount></ListBucketResult>",
                )
            };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-type: application/xml\r\ncontent-length: {length}\r\n");
            socket.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await.ok();
        });
    }
}

/// A report is revised between the look at its row and the read of its body.
#[tokio::test]
async fn a_body_that_moved_meanwhile_is_found_by_looking_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (asked, mut asks) = mpsc::channel(1);
    let bucket = tokio::spawn(empty_bucket(listener, asked));
    let world = World::configured(|config| config.objects.endpoint = Some(endpoint)).await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let now = world.host.clock.now();
    store(&world, "acme", &crash(A, "1.0"), 1, now).await;
    move_bodies(&world.store, now.date(), None).await;
    let path = format!("/v1/reports/{A}");
    let revising = async {
        let go = asks.recv().await.unwrap();
        store(&world, "acme", &crash(A, "1.0"), 2, now).await;
        go.send(()).unwrap();
    };
    let (answer, ()) = tokio::join!(world.get(&path, &key), revising);
    assert_eq!((answer.status.as_u16(), &answer.headers["x-report-revision"]), (200, &"2".parse().unwrap()));
    assert_eq!(answer.parse_json()["symbolication"]["revision"], 2);
    world.stop().await;
    bucket.abort();
}

#[tokio::test]
async fn a_deleted_report_is_gone_and_only_an_administrator_of_its_app_deletes_it() {
    let world = World::start().await;
    let read = world.create_key("acme", &[Scope::ReportsRead]).await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let other_app = world.key_for("acme", &[Scope::TenantAdmin], Some("com.example.bank")).await;
    let own_app = world.key_for("acme", &[Scope::TenantAdmin], Some("com.example.shop")).await;
    let now = world.host.clock.now();
    for id in [A, B] {
        store(&world, "acme", &crash(id, "1.0"), 1, now).await;
    }
    let path = format!("/v1/reports/{A}");
    world.delete(&path, &read).await.expect_problem(403, "insufficient-scope");
    world.delete(&path, &other_app).await.expect_problem(404, "not-found");
    world.delete(&format!("{path}?variant=1"), &admin).await.expect_problem(404, "not-found");
    world.get(&path, &read).await.expect_status(200);
    world.delete(&path, &own_app).await.expect_status(204);
    for again in [&admin, &own_app] {
        world.delete(&path, again).await.expect_problem(404, "not-found");
    }
    world.get(&path, &read).await.expect_problem(404, "not-found");
    world.get(&format!("{path}/explain"), &read).await.expect_problem(404, "not-found");
    let list = world.get("/v1/reports", &read).await.expect_status(200);
    assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["id"]), (1, &json!(B)));
    assert_eq!(world.get("/v1/apps", &read).await.expect_status(200)["items"][0]["reports"], 1);
    // It does not come back, and the log says who deleted it.
    store(&world, "acme", &crash(A, "1.0"), 2, now).await;
    world.get(&path, &read).await.expect_problem(404, "not-found");
    world.delete(&format!("/v1/reports/{B}"), &admin).await.expect_status(204);
    let mut sql = world.connect().await;
    let logged: Vec<(String, String)> = sqlx::query_as(
        "SELECT action, subject FROM audit_log WHERE action = 'report.delete' ORDER BY at, subject",
    )
    .fetch_all(&mut sql)
    .await
    .unwrap();
    sqlx::Connection::close(sql).await.unwrap();
    assert_eq!(logged, [("report.delete".into(), A.into()), ("report.delete".into(), B.into())]);
    world.stop().await;
}
