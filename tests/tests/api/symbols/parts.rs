//! Uploads in parts: what goes on where it stopped, and what is refused or given up.
//! Proves: uploads

use crate::world::{World, tenant_id};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use unslide_artifacts::{Put, keys};
use unslide_model::{ContentHash, Owner, Scope};
use unslide_store::UploadId;
use unslide_store::partial::{self, Completion, Partial};
use unslide_store::tenants::QuotaLimits;

const PART: usize = 5 << 20;

/// Bytes that begin like a thin Mach-O file, no two parts of it the same.
fn mach_o(size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap()).collect();
    bytes[..4].copy_from_slice(&[0xcf, 0xfa, 0xed, 0xfe]);
    bytes
}

fn sha256(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

fn announced(file: &[u8]) -> Value {
    json!({"name": "Shop", "size": file.len(), "sha256": sha256(file).to_string()})
}

impl World {
    async fn begin(&self, key: &str, file: &[u8]) -> Value {
        self.post_json("/v1/symbols/uploads", key, &announced(file)).await.expect_status(200)
    }

    async fn part(&self, key: &str, id: &str, number: usize, part: &[u8]) -> crate::world::Answer {
        let path = format!("/v1/symbols/uploads/{id}/parts/{number}");
        self.send(self.request(Method::PUT, &path, key).body(part.to_vec())).await
    }

    async fn complete(&self, key: &str, id: &str) -> crate::world::Answer {
        self.post(&format!("/v1/symbols/uploads/{id}/complete"), key, "").await
    }

    /// Begins an upload of one part for `acme` and sends the part. Returns the upload.
    async fn fill(&self, key: &str, file: &[u8]) -> (String, Owner, Partial) {
        let id = id(&self.begin(key, file).await);
        self.part(key, &id, 1, file).await.expect_status(204);
        let owner = Owner::Tenant(tenant_id("acme"));
        let mut tx = self.store.owner(&owner).await.unwrap();
        let open = partial::get(&mut tx, id.parse().unwrap()).await.unwrap().unwrap();
        tx.rollback().await.unwrap();
        (id, owner, open)
    }

    async fn partials(&self) -> i64 {
        self.number("SELECT count(*) FROM partial_uploads").await
    }

    /// Nothing has come of an upload for two minutes.
    async fn forget(&self, id: &str) {
        let mut connection = self.connect().await;
        sqlx::query("UPDATE uploads SET updated_at = updated_at - interval '2 minutes' WHERE id = $1")
            .bind(id.parse::<UploadId>().unwrap())
            .execute(&mut connection)
            .await
            .unwrap();
        sqlx::Connection::close(connection).await.unwrap();
    }
}

fn id(body: &Value) -> String {
    body["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_half_sent_file_goes_on_where_it_stopped() {
    let world = World::with(|limits| limits.part_bytes = PART as u64).await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let file = mach_o(2 * PART + 1_000);
    let begun = world.begin(&key, &file).await;
    assert_eq!((&begun["existing"], &begun["part_bytes"]), (&false.into(), &PART.into()));
    assert_eq!(begun["parts"], json!([]));
    let id = id(&begun);
    world.part(&key, &id, 3, &file[2 * PART..]).await.expect_status(204);
    world.part(&key, &id, 1, &file[..PART]).await.expect_status(204);
    assert_eq!(
        world.begin(&key, &file).await,
        json!({"id": id, "existing": false, "part_bytes": PART, "parts": [1, 3]})
    );
    let status = format!("/v1/symbols/uploads/{id}");
    assert_eq!(world.get(&status, &key).await.expect_status(200)["status"], "receiving");
    let found = format!("/v1/symbols/uploads/by-content/{}", sha256(&file));
    world.get(&found, &key).await.expect_problem(404, "not-found");
    let detail = world.complete(&key, &id).await.expect_problem(409, "incomplete-upload");
    assert!(detail.ends_with(": 2"), "{detail}");
    // Damaged at first, and then as it is: the last one counts.
    world.part(&key, &id, 2, &[7; PART]).await.expect_status(204);
    world.part(&key, &id, 2, &file[PART..2 * PART]).await.expect_status(204);
    assert_eq!(world.list_objects("acme").await, Vec::<String>::new());
    let whole = world.complete(&key, &id).await.expect_status(202);
    assert_eq!((&whole["id"], &whole["size"]), (&begun["id"], &file.len().into()));
    assert_eq!(world.complete(&key, &id).await.expect_status(202), whole, "its answer may have been lost");
    assert_eq!(world.get(&status, &key).await.expect_status(200)["status"], "queued");
    let stored = keys::for_upload(tenant_id("acme").scope(id.parse::<UploadId>().unwrap()));
    let stored = world.bucket().await.get(&stored, 1 << 30).await.unwrap().unwrap();
    assert_eq!(sha256(&stored.bytes), sha256(&file));
    assert_eq!(world.partials().await, 0);
    assert_eq!(world.number("SELECT count(*) FROM jobs WHERE kind = 'build'").await, 1);
    assert_eq!(world.read_metric("unslide_api_upload_bytes_total"), file.len() as f64);
    // From now on it is an upload like any other.
    world.part(&key, &id, 1, &file[..PART]).await.expect_problem(409, "upload-ended");
    let again = world.begin(&key, &file).await;
    assert_eq!((&again["id"], &again["existing"]), (&begun["id"], &true.into()));
    let again = world.post("/v1/symbols", &key, file.clone()).await.expect_status(202);
    assert_eq!((&again["id"], &again["existing"]), (&begun["id"], &true.into()));
    world.stop().await;
}

#[tokio::test]
async fn parts_may_be_packed_each_by_itself() {
    let world = World::with(|limits| limits.part_bytes = PART as u64).await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let file = mach_o(PART + 1_000);
    let id = id(&world.begin(&key, &file).await);
    let put = |number: usize, unpacked: &[u8]| {
        let path = format!("/v1/symbols/uploads/{id}/parts/{number}");
        let hash = sha256(unpacked).to_string();
        let request = world.request(Method::PUT, &path, &key).header("content-encoding", "zstd");
        request.header("x-content-sha256", hash).body(zstd::encode_all(unpacked, 3).unwrap())
    };
    world.send(put(2, &file[PART..PART + 999])).await.expect_problem(400, "invalid-upload");
    let longer = [&file[PART..], b"x"].concat();
    world.send(put(2, &longer)).await.expect_problem(413, "too-large");
    world.send(put(1, &file[..PART])).await.expect_status(204);
    world.send(put(2, &file[PART..])).await.expect_status(204);
    let done = world.complete(&key, &id).await.expect_status(202);
    assert_eq!(done["sha256"], sha256(&file).to_string());
    world.stop().await;
}

#[tokio::test]
async fn a_wrong_part_is_refused_and_costs_nothing_that_has_come() {
    let world = World::with(|limits| limits.part_bytes = PART as u64).await;
    let key = world.create_master_key("acme").await;
    let file = mach_o(PART + 1_000);
    let id = id(&world.begin(&key, &file).await);
    world.part(&key, &id, 1, &file[..PART]).await.expect_status(204);
    let short = world.part(&key, &id, 2, &file[PART..PART + 999]).await;
    assert!(short.expect_problem(400, "invalid-upload").contains("1000"));
    world.part(&key, &id, 2, &file[PART - 1..]).await.expect_problem(413, "too-large");
    let path = format!("/v1/symbols/uploads/{id}/parts/2");
    let pieces = [Ok::<_, std::io::Error>(vec![1; 600]), Ok(vec![1; 600])];
    let chunked = world
        .request(Method::PUT, &path, &key)
        .body(reqwest::Body::wrap_stream(futures::stream::iter(pieces)));
    world.send(chunked).await.expect_problem(413, "too-large");
    let damaged = world.request(Method::PUT, &path, &key).header("x-content-sha256", "0".repeat(64));
    world.send(damaged.body(file[PART..].to_vec())).await.expect_problem(400, "checksum-mismatch");
    for number in [0, 3] {
        let detail = world.part(&key, &id, number, &[1]).await.expect_problem(400, "invalid-parameter");
        assert!(detail.contains("1 to 2"), "{detail}");
    }
    assert_eq!(world.begin(&key, &file).await["parts"], json!([1]));
    let right =
        world.request(Method::PUT, &path, &key).header("x-content-sha256", sha256(&file[PART..]).to_string());
    world.send(right.body(file[PART..].to_vec())).await.expect_status(204);
    world.complete(&key, &id).await.expect_status(202);

    // What is no file of symbols at all ends with its first part.
    let text = b"<html> and so on";
    let other = self::id(&world.begin(&key, text).await);
    world.part(&key, &other, 1, text).await.expect_problem(415, "unsupported-format");
    world.part(&key, &other, 1, text).await.expect_problem(409, "upload-ended");
    world.complete(&key, &other).await.expect_problem(409, "upload-ended");
    let status = world.get(&format!("/v1/symbols/uploads/{other}"), &key).await.expect_status(200);
    assert_eq!((&status["status"], &status["reason"]), (&"failed".into(), &"unsupported-format".into()));
    assert_eq!(world.partials().await, 0);
    world.stop().await;
}

#[tokio::test]
async fn what_is_announced_is_held_against_the_limits_before_any_byte() {
    let world = World::with(|limits| limits.open_uploads = 2).await;
    let key = world.create_master_key("acme").await;
    let own = QuotaLimits { upload_bytes: 5_000, symbol_bytes: 10_000, ..QuotaLimits::default() };
    world.change_limits("acme", &own).await;
    let begin = async |body: Value| world.post_json("/v1/symbols/uploads", &key, &body).await;
    let detail = begin(announced(&mach_o(5_001))).await.expect_problem(413, "too-large");
    assert!(detail.contains("5000"), "{detail}");
    let hash = "1".repeat(64);
    begin(json!({"size": 0, "sha256": hash})).await.expect_problem(400, "invalid-upload");
    begin(json!({"size": 1, "sha256": "1"})).await.expect_problem(400, "invalid-body");
    begin(json!({"size": 1, "sha256": hash, "x": 1})).await.expect_problem(400, "invalid-body");
    let long = json!({"size": 1, "sha256": hash, "name": "n".repeat(256)});
    begin(long).await.expect_problem(400, "invalid-parameter");

    // Open ones count as if they were there, for the other way to send as well.
    let files = [mach_o(5_000), mach_o(4_999), mach_o(10)];
    let first = id(&world.begin(&key, &files[0]).await);
    world.begin(&key, &files[1]).await;
    let full = begin(announced(&files[2])).await.expect_problem(507, "symbol-quota");
    assert!(full.contains("9999") && full.contains("10000"), "{full}");
    world.post("/v1/symbols", &key, mach_o(10)).await.expect_problem(507, "symbol-quota");
    assert_eq!(world.begin(&key, &files[0]).await["id"], first.as_str(), "it counts already");

    // And the number of open uploads.
    world.change_limits("acme", &QuotaLimits::default()).await;
    let key = world.create_master_key("acme").await;
    let refused = world.post_json("/v1/symbols/uploads", &key, &announced(&files[2])).await;
    assert!(refused.headers.contains_key("retry-after"));
    let detail = refused.expect_problem(429, "rate-limited");
    assert!(detail.contains("open_uploads") && detail.contains("is 2"), "{detail}");
    assert_eq!(world.read_metric(r#"unslide_api_refused_total{limit="open_uploads"}"#), 1.0);
    let other = world.create_master_key("umbrella").await;
    world.begin(&other, &files[2]).await;
    world.part(&key, &first, 1, &files[0]).await.expect_status(204);
    world.complete(&key, &first).await.expect_status(202);
    world.begin(&key, &files[2]).await;
    world.stop().await;
}

/// The limit may have become smaller since the beginning.
#[tokio::test]
async fn the_limit_counts_when_an_upload_is_completed() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let file = mach_o(5_000);
    let id = id(&world.begin(&key, &file).await);
    world.part(&key, &id, 1, &file).await.expect_status(204);
    world.change_limits("acme", &QuotaLimits { symbol_bytes: 4_999, ..QuotaLimits::default() }).await;
    let key = world.create_master_key("acme").await;
    let detail = world.complete(&key, &id).await.expect_problem(507, "symbol-quota");
    assert!(detail.contains("this file has 5000"), "{detail}");
    world.complete(&key, &id).await.expect_problem(409, "upload-ended");
    assert_eq!(world.list_objects("acme").await, Vec::<String>::new());
    assert_eq!(world.partials().await, 0);
    world.change_limits("acme", &QuotaLimits { symbol_bytes: 5_000, ..QuotaLimits::default() }).await;
    let key = world.create_master_key("acme").await;
    let id = self::id(&world.begin(&key, &file).await);
    world.part(&key, &id, 1, &file).await.expect_status(204);
    world.complete(&key, &id).await.expect_status(202);
    world.stop().await;
}

/// The process ended when object storage had made the file and the database did not know.
#[tokio::test]
async fn a_completion_that_was_cut_off_is_found_by_the_next() {
    let world = World::start().await;
    let (key, file) = (world.create_master_key("acme").await, mach_o(1_000));
    let (id, owner, open) = world.fill(&key, &file).await;
    let mut tx = world.store.owner(&owner).await.unwrap();
    let tags: Vec<String> =
        partial::list_parts(&mut tx, open.id).await.unwrap().into_iter().map(|part| part.etag).collect();
    tx.rollback().await.unwrap();
    let key_of_file = keys::for_upload(owner.own(open.id));
    world.bucket().await.complete_parts(&key_of_file, &open.multipart_id, &tags, 1_000).await.unwrap();
    world.complete(&key, &id).await.expect_status(202);
    assert_eq!(
        world.get(&format!("/v1/symbols/uploads/{id}"), &key).await.expect_status(200)["status"],
        "queued"
    );
    assert_eq!(world.list_objects("acme").await.len(), 1);
    assert_eq!(world.partials().await, 0);
    world.stop().await;
}

#[tokio::test]
async fn an_upload_without_a_new_part_is_given_up() {
    let world = World::with(|limits| limits.upload_seconds = 1).await;
    let key = world.create_master_key("acme").await;
    let file = mach_o(1_000);
    let id = id(&world.begin(&key, &file).await);
    let status = format!("/v1/symbols/uploads/{id}");
    world.forget(&id).await;
    // A part that comes after all is a sign of life.
    world.part(&key, &id, 1, &file).await.expect_status(204);
    assert_eq!(world.get(&status, &key).await.expect_status(200)["status"], "receiving");
    world.forget(&id).await;
    let ended = world.get(&status, &key).await.expect_status(200);
    assert_eq!((&ended["status"], &ended["reason"]), (&"failed".into(), &"abandoned".into()));
    world.part(&key, &id, 1, &file).await.expect_problem(409, "upload-ended");
    world.complete(&key, &id).await.expect_problem(409, "upload-ended");
    assert_ne!(world.begin(&key, &file).await["id"], id.as_str());
    world.stop().await;
}

/// Of a request that died, or is still at it, nothing is known but that it began.
#[tokio::test]
async fn while_one_request_makes_the_file_another_waits_and_spoils_nothing() {
    let world = World::start().await;
    let (key, file) = (world.create_master_key("acme").await, mach_o(1_000));
    let (id, owner, open) = world.fill(&key, &file).await;
    let mut tx = world.store.owner(&owner).await.unwrap();
    assert_eq!(partial::reserve_completion(&mut tx, open.id).await.unwrap(), Some(Completion::First));
    tx.commit().await.unwrap();
    // As where the other one has taken the parts, and its file is not there yet.
    world
        .bucket()
        .await
        .abort_parts(&keys::for_upload(owner.own(open.id)), &open.multipart_id)
        .await
        .unwrap();
    world.complete(&key, &id).await.expect_problem(503, "unavailable");
    assert_eq!(
        world.get(&format!("/v1/symbols/uploads/{id}"), &key).await.expect_status(200)["status"],
        "receiving"
    );
    // Nobody came back.
    let later = "UPDATE partial_uploads SET completing_at = completing_at - interval '6 minutes' RETURNING 1";
    assert_eq!(world.number(&format!("WITH done AS ({later}) SELECT count(*) FROM done")).await, 1);
    world.complete(&key, &id).await.expect_problem(409, "upload-ended");
    world.stop().await;
}

/// A client of object storage tries again if many parts are joined for long, and then there are neither parts nor file.
#[tokio::test]
async fn a_file_that_object_storage_makes_for_long_is_waited_for() {
    let world = World::start().await;
    let (key, file) = (world.create_master_key("acme").await, mach_o(1_000));
    let (id, owner, open) = world.fill(&key, &file).await;
    let (bucket, object) = (world.bucket().await, keys::for_upload(owner.own(open.id)));
    bucket.abort_parts(&object, &open.multipart_id).await.unwrap();
    world.complete(&key, &id).await.expect_problem(503, "unavailable");
    bucket.put_stream(&object, file.as_slice(), u64::MAX, &Put::default()).await.unwrap();
    world.complete(&key, &id).await.expect_status(202);
    world.stop().await;
}

/// Two clients with one file: they send into one upload, and it is queued once.
#[tokio::test]
async fn two_clients_with_one_file_fill_one_upload() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let file = mach_o(1_000);
    let begun = futures::future::join_all((0..8).map(|_| world.begin(&key, &file))).await;
    assert!(begun.iter().all(|one| one["id"] == begun[0]["id"]), "{begun:?}");
    let id = id(&begun[0]);
    let parts = futures::future::join_all((0..4).map(|_| world.part(&key, &id, 1, &file))).await;
    assert!(parts.iter().all(|answer| answer.status == 204), "{parts:?}");
    let ends = futures::future::join_all((0..4).map(|_| world.complete(&key, &id))).await;
    assert!(ends.iter().any(|answer| answer.status == 202), "{ends:?}");
    world.complete(&key, &id).await.expect_status(202);
    assert_eq!(world.number("SELECT count(*) FROM uploads").await, 1);
    assert_eq!(world.number("SELECT count(*) FROM jobs").await, 1);
    world.stop().await;
}

/// A bucket that begins multipart uploads and knows of none afterwards.
async fn forgetful_bucket(listener: TcpListener) {
    const BEGUN: &str =
        "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>";
    const LISTED: &str =
        "<ListBucketResult><Name>unslide-test</Name><KeyCount>0</KeyCount></ListBucketResult>";
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut head = vec![0; 16 << 10];
            let read = socket.read(&mut head).await.unwrap_or(0);
            let (status, body) = match &head[..read.min(3)] {
                b"POS" => ("200 OK", BEGUN),
                b"PUT" => ("404 Not Found", "<Error><Code>NoSuchUpload</Code></Error>"),
                b"GET" => ("200 OK", LISTED),
                b"DEL" => ("204 No Content", ""),
                _ => ("404 Not Found", ""),
            };
            let length =
                if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/xml\r\n{length}connection: close\r\n\r\n"
            );
            socket.write_all(format!("{head}{body}").as_bytes()).await.ok();
        });
    }
}

/// A lifecycle rule took them, say: the client begins again.
#[tokio::test]
async fn an_upload_whose_parts_object_storage_has_lost_is_over() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let bucket = tokio::spawn(forgetful_bucket(listener));
    let world = World::configured(|config| config.objects.endpoint = Some(endpoint)).await;
    let key = world.create_master_key("acme").await;
    let file = mach_o(1_000);
    let id = id(&world.begin(&key, &file).await);
    world.part(&key, &id, 1, &file).await.expect_problem(409, "upload-ended");
    let status = world.get(&format!("/v1/symbols/uploads/{id}"), &key).await.expect_status(200);
    assert_eq!((&status["status"], &status["reason"]), (&"failed".into(), &"upload_lost".into()));
    assert_eq!(world.partials().await, 0);
    assert_ne!(world.begin(&key, &file).await["id"], id.as_str());
    world.stop().await;
    bucket.abort();
}
