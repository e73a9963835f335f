//! `POST /v1/symbols` and what becomes of an upload.

use crate::world::{World, slow_body, tenant_id};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use unslide_model::{ContentHash, Scope};
use unslide_store::{UploadId, objects, uploads};

/// Bytes that begin like a thin Mach-O file; the api looks no further.
fn mach_o(size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap()).collect();
    bytes[..4].copy_from_slice(&[0xcf, 0xfa, 0xed, 0xfe]);
    bytes
}

fn id(body: &serde_json::Value) -> UploadId {
    body["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_upload_is_stored_whole_and_queued_and_the_same_again_changes_nothing() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite, Scope::SymbolsRead]).await;
    let file = mach_o(20 << 20);
    let hash = ContentHash(Sha256::digest(&file).into()).to_string();
    let sent =
        world.post("/v1/symbols?name=Shop&app=com.example.shop", &key, file.clone()).await.expect_status(202);
    assert_eq!(sent["existing"], false);
    assert_eq!(sent["uploads"][0]["sha256"], hash.as_str());
    assert_eq!(sent["uploads"][0]["size"], file.len());
    let upload = id(&sent);
    let path = format!("/v1/symbols/uploads/{upload}");
    let status = world.get(&path, &key).await.expect_status(200);
    assert_eq!((status["status"].as_str(), status["file_name"].as_str()), (Some("queued"), Some("Shop")));
    assert_eq!(status["app"], "com.example.shop");
    assert_eq!(world.list_objects("acme").await, [format!("t/acme/uploads/{upload}")]);

    // Chunked this time, and with its hash.
    let pieces = futures::stream::iter(
        file.chunks(100_000).map(|c| Ok::<_, std::io::Error>(c.to_vec())).collect::<Vec<_>>(),
    );
    let request = world.request(Method::POST, "/v1/symbols", &key).header("x-content-sha256", &hash);
    let again = world.send(request.body(reqwest::Body::wrap_stream(pieces))).await.expect_status(202);
    assert_eq!((again["existing"].as_bool(), id(&again)), (Some(true), upload));
    assert_eq!(world.list_objects("acme").await.len(), 1, "the second copy is gone");

    // Whoever asks for the bytes first need not send them.
    let found = format!("/v1/symbols/uploads/by-content/{hash}");
    let earlier = world.get(&found, &key).await.expect_status(200);
    assert_eq!((id(&earlier), earlier["status"].as_str()), (upload, Some("queued")));
    let no_hash = format!("/v1/symbols/uploads/by-content/{}", hash.get(1..).unwrap());
    world.get(&no_hash, &key).await.expect_problem(400, "invalid-parameter");

    // Another tenant knows nothing of it.
    let other = world.create_master_key("umbrella").await;
    let theirs = world.post("/v1/symbols", &other, file).await.expect_status(202);
    assert_eq!(theirs["existing"], false);
    world.get(&path, &other).await.expect_problem(404, "not-found");
    world.stop().await;
}

#[tokio::test]
async fn a_form_brings_several_files() {
    let world = World::with(|limits| limits.upload_files = 2).await;
    let key = world.create_master_key("acme").await;
    let part = |name: &'static str, size| Part::bytes(mach_o(size)).file_name(name);
    let note = "hello".repeat(1 << 20);
    let form = Form::new().part("a", part("One", 5 << 20)).text("note", note).part("b", part("Two", 2_000));
    let sent =
        world.send(world.request(Method::POST, "/v1/symbols", &key).multipart(form)).await.expect_status(202);
    let names: Vec<_> =
        sent["uploads"].as_array().unwrap().iter().map(|u| u["file_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["One", "Two"]);
    assert_eq!(sent["id"], sent["uploads"][0]["id"]);

    let three =
        Form::new().part("a", part("1", 1_001)).part("b", part("2", 1_002)).part("c", part("3", 1_003));
    let refused = world.send(world.request(Method::POST, "/v1/symbols", &key).multipart(three)).await;
    assert!(refused.expect_problem(413, "too-large").contains("2 files"));
    let none = world
        .send(world.request(Method::POST, "/v1/symbols", &key).multipart(Form::new().text("a", "b")))
        .await;
    none.expect_problem(400, "invalid-upload");
    let cut = world
        .request(Method::POST, "/v1/symbols", &key)
        .header("content-type", "multipart/form-data; boundary=b");
    let body = [
        b"--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\n".to_vec(),
        mach_o(1_000),
    ]
    .concat();
    world.send(cut.body(body)).await.expect_problem(400, "invalid-upload");
    world.stop().await;
}

/// What comes before a file would be held in memory: it is not waited for to its end.
#[tokio::test]
async fn a_form_that_does_not_begin_is_refused() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    for head in ["x", "--b\r\nContent-Disposition: form-data; name=\""] {
        let (more, body) = slow_body();
        more.unbounded_send(Ok(head.as_bytes().to_vec())).unwrap();
        for _ in 0..32 {
            more.unbounded_send(Ok(vec![b'x'; 64 << 10])).unwrap();
        }
        let request = world
            .request(Method::POST, "/v1/symbols", &key)
            .header("content-type", "multipart/form-data; boundary=b");
        let detail = world.send(request.body(body)).await.expect_problem(400, "invalid-upload");
        assert!(detail.contains("1048576 bytes"), "{detail}");
        drop(more);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_wrong_file_is_refused_and_leaves_nothing() {
    let world = World::configured(|config| config.tenants.upload_bytes = 100_000).await;
    let key = world.create_master_key("acme").await;
    assert!(
        world
            .post("/v1/symbols", &key, "<html>")
            .await
            .expect_problem(415, "unsupported-format")
            .contains("a web page")
    );
    world.post("/v1/symbols", &key, "").await.expect_problem(400, "invalid-upload");
    world.post("/v1/symbols", &key, mach_o(100_001)).await.expect_problem(413, "too-large");
    let pieces = futures::stream::iter(vec![Ok::<_, std::io::Error>(mach_o(90_000)), Ok(vec![0; 90_000])]);
    let chunked = world.request(Method::POST, "/v1/symbols", &key).body(reqwest::Body::wrap_stream(pieces));
    world.send(chunked).await.expect_problem(413, "too-large");
    let wrong = world.request(Method::POST, "/v1/symbols", &key).header("x-content-sha256", "0".repeat(64));
    world.send(wrong.body(mach_o(1_000))).await.expect_problem(400, "checksum-mismatch");
    let malformed = world.request(Method::POST, "/v1/symbols", &key).header("digest", "sha-256=x");
    world.send(malformed.body(mach_o(1_000))).await.expect_problem(400, "invalid-parameter");
    let name = format!("/v1/symbols?name={}", "n".repeat(256));
    world.post(&name, &key, mach_o(1_000)).await.expect_problem(400, "invalid-parameter");
    assert_eq!(world.list_objects("acme").await, Vec::<String>::new());
    world.stop().await;
}

#[tokio::test]
async fn a_packed_body_is_stored_unpacked_and_within_the_limits() {
    let world = World::configured(|config| config.tenants.upload_bytes = 3 << 20).await;
    let key = world.create_key("acme", &[Scope::SymbolsWrite, Scope::SymbolsRead]).await;
    let file = mach_o(2 << 20);
    let hash = ContentHash(Sha256::digest(&file).into()).to_string();
    let request = |coding: &str, body: Vec<u8>| {
        world.request(Method::POST, "/v1/symbols", &key).header("content-encoding", coding).body(body)
    };
    let packed = zstd::encode_all(&file[..], 3).unwrap();
    assert!(packed.len() < file.len() / 100);
    let sent = world.send(request("zstd", packed.clone()).header("x-content-sha256", &hash)).await;
    let sent = sent.expect_status(202);
    assert_eq!(
        (&sent["uploads"][0]["sha256"], &sent["uploads"][0]["size"]),
        (&hash.into(), &file.len().into())
    );
    let again = world.post("/v1/symbols", &key, file).await.expect_status(202);
    assert_eq!((again["existing"].as_bool(), id(&again)), (Some(true), id(&sent)));

    let bomb = zstd::encode_all(&mach_o((3 << 20) + 1)[..], 3).unwrap();
    world.send(request("zstd", bomb)).await.expect_problem(413, "too-large");
    world.send(request("br", packed.clone())).await.expect_problem(415, "unsupported-format");
    world.send(request("gzip", packed.clone())).await.expect_problem(400, "invalid-upload");
    let cut = packed[..packed.len() - 9].to_vec();
    world.send(request("zstd", cut)).await.expect_problem(400, "invalid-upload");
    let of_packed = request("zstd", packed).header("digest", "SHA-256=AAAA");
    let detail = world.send(of_packed).await.expect_problem(400, "invalid-parameter");
    assert!(detail.contains("x-content-sha256"), "{detail}");
    assert_eq!(world.list_objects("acme").await.len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn the_tenants_own_limit_counts() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let limits = unslide_store::tenants::QuotaLimits { upload_bytes: 5_000, ..Default::default() };
    unslide_store::tenants::change_tenant(
        &mut tx,
        "acme",
        unslide_store::tenants::TenantStanding::Active,
        &limits,
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    world.post("/v1/symbols", &key, mach_o(5_001)).await.expect_problem(413, "too-large");
    world.post("/v1/symbols", &key, mach_o(5_000)).await.expect_status(202);
    world.stop().await;
}

/// The connection ends in the middle of the body: all that is left is a note of the failure.
#[tokio::test]
async fn a_cut_connection_leaves_a_note_and_no_object() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let mut stream =
        tokio::net::TcpStream::connect(world.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST /v1/symbols HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\ncontent-length: 30000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&mach_o(20 << 20)).await.unwrap();
    drop(stream);
    let failed = async {
        loop {
            let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
            let newest = uploads::list_newest(&mut tx, 1).await.unwrap();
            tx.rollback().await.unwrap();
            if let Some(upload) = newest.into_iter().find(|u| u.status == uploads::UploadStatus::Failed) {
                return upload;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let upload = tokio::time::timeout(Duration::from_secs(120), failed).await.unwrap();
    assert_eq!(upload.reason.as_deref(), Some("incomplete-body"));
    assert_eq!(world.list_objects("acme").await, Vec::<String>::new());
    let status = world.get(&format!("/v1/symbols/uploads/{}", upload.id), &key).await.expect_status(200);
    assert_eq!((&status["status"], &status["reason"]), (&"failed".into(), &"incomplete-body".into()));
    world.stop().await;
}

/// A body that stops coming is given up, not waited for.
#[tokio::test]
async fn a_stalled_body_is_given_up() {
    let world = World::with(|limits| limits.stall_seconds = 1).await;
    let key = world.create_master_key("acme").await;
    let mut stream =
        tokio::net::TcpStream::connect(world.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST /v1/symbols HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {key}\r\ncontent-length: 30000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&mach_o(1_000)).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(Duration::from_secs(120), stream.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("/problems/body-timeout"), "{answer}");
    world.stop().await;
}

/// A client that sends first and reads then learns why its file is not wanted.
#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    for (key, status) in [("unslide_x_y", "401"), (key.as_str(), "415")] {
        let address = world.url.strip_prefix("http://").unwrap();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /v1/symbols HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {key}\r\ncontent-length: 4000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; 4_000_000]).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    world.stop().await;
}

/// A receiver that died does not end its upload: the next request for the upload does.
#[tokio::test]
async fn an_upload_whose_receiver_died_is_ended_when_it_is_asked_for() {
    let world = World::with(|limits| limits.upload_seconds = 1).await;
    let key = world.create_master_key("acme").await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let young = uploads::create_upload(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    let path = format!("/v1/symbols/uploads/{young}");
    assert_eq!(world.get(&path, &key).await.expect_status(200)["status"], "receiving");
    let mut connection = world.connect().await;
    sqlx::query("UPDATE uploads SET updated_at = updated_at - interval '2 minutes' WHERE id = $1")
        .bind(young)
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    let ended = world.get(&path, &key).await.expect_status(200);
    assert_eq!((&ended["status"], &ended["reason"]), (&"failed".into(), &"abandoned".into()));
    world.stop().await;
}

/// What a builder does to an upload, without the builder.
async fn build(world: &World, upload: UploadId, hash: ContentHash) {
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    uploads::mark_building(&mut tx, upload).await.unwrap();
    let new = objects::NewObject {
        content_hash: hash,
        debug_id: Some("0f1e2d3c4b5a69788796a5b4c3d2e1f0".parse().unwrap()),
        name: "Shop".to_owned(),
        arch: "arm64".to_owned(),
        kind: "dsym".to_owned(),
        has_dwarf: true,
        has_symtab: true,
        has_exports: false,
        has_sources: false,
        size: 1_000,
    };
    objects::record_found(&mut tx, upload, &[("Shop.dSYM/Shop", &new)]).await.unwrap();
    objects::mark_rejected(&mut tx, &hash, objects::ObjectStatus::Malformed, "the load commands end early")
        .await
        .unwrap();
    let detail = Some("links are not followed".to_owned());
    let skipped = uploads::SkippedMember { path: "symlink".to_owned(), reason: "link".to_owned(), detail };
    uploads::mark_done(&mut tx, upload, &[skipped]).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn waiting_ends_when_the_upload_is_built() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let file = mach_o(1_000);
    let upload = id(&world.post("/v1/symbols", &key, file.clone()).await.expect_status(202));
    let path = format!("/v1/symbols/uploads/{upload}");
    let early = world.get(&format!("{path}?wait=100ms"), &key).await.expect_status(200);
    assert_eq!(early["status"], "queued");
    // The client gives up before this time is over.
    let waited = format!("{path}?wait=60s");
    let (answer, ()) = tokio::join!(world.get(&waited, &key), async {
        world.wait_for_metric(r#"unslide_api_in_flight{kind="waits"}"#, 1.0).await;
        build(&world, upload, ContentHash(Sha256::digest(&file).into())).await;
    });
    let done = answer.expect_status(200);
    assert_eq!(done["status"], "done");
    let object = &done["objects"][0];
    assert_eq!(object["debug_id"], "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
    assert_eq!(
        (&object["status"], &object["reason"]),
        (&"malformed".into(), &"the load commands end early".into())
    );
    assert_eq!((&object["offers"]["dwarf"], &object["known"]), (&true.into(), &false.into()));
    let skipped =
        serde_json::json!([{ "path": "symlink", "reason": "link", "detail": "links are not followed" }]);
    assert_eq!(done["skipped"], skipped);
    world.get(&format!("{path}?wait=soon"), &key).await.expect_problem(400, "invalid-parameter");
    world.get("/v1/symbols/uploads/7", &key).await.expect_problem(400, "invalid-parameter");

    // Deleted symbols come back with the same file.
    let hash = ContentHash(Sha256::digest(&file).into());
    let found = format!("/v1/symbols/uploads/by-content/{hash}");
    assert_eq!(id(&world.get(&found, &key).await.expect_status(200)), upload);
    world.delete("/v1/symbols/0f1e2d3c4b5a69788796a5b4c3d2e1f0", &key).await.expect_status(204);
    world.get(&found, &key).await.expect_problem(404, "not-found");
    let again = world.post("/v1/symbols", &key, file).await.expect_status(202);
    assert_eq!(again["existing"], false);
    world.stop().await;
}
