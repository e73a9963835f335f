//! The requests of sentry-cli.

use crate::uploaders::world::{APP, Part, SCOPES, UploadWorld, declaration, fixture, sha1};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::TenantId;
use unslide_store::tenants::QuotaLimits;
use unslide_store::usage;
use unslide_uploaders_formats::{SentryTokenClaim, write_sentry_token};
use unslide_world::wait_until;

/// The only entry of an answer.
fn entry(answer: &Value) -> &Value {
    answer.as_object().unwrap().values().next().unwrap()
}

#[tokio::test]
async fn a_file_of_several_chunks_becomes_symbols_and_is_not_sent_again() {
    let mut world = UploadWorld::start().await;
    world.start_builder();
    let key = world.create_key("acme", &SCOPES).await;
    let options = world.options(&key).await.expect_status(200);
    assert_eq!((&options["hashAlgorithm"], &options["compression"]), (&json!("sha1"), &json!(["gzip"])));
    assert_eq!(options["url"], format!("{}/api/0/organizations/acme/chunk-upload/", world.url));
    assert!(options["accept"].as_array().unwrap().contains(&json!("debug_files")));

    let (bytes, debug_id) = fixture("app");
    let chunks: Vec<&[u8]> = bytes.chunks(bytes.len() / 3 + 1).collect();
    let declared = declaration("app", &chunks);
    let answer = world.assemble(&key, &declared).await.expect_status(200);
    assert_eq!(entry(&answer)["state"], "not_found");
    assert_eq!(entry(&answer)["missingChunks"].as_array().unwrap().len(), 3);
    // The first request has one chunk, twice; the other has the rest, one of them not packed.
    let sent = world.send_chunks(&key, &[Part::chunk(chunks[0]), Part::chunk(chunks[0])]).await;
    assert_eq!((sent.status.as_u16(), sent.text.as_str()), (200, ""));
    let answer = world.assemble(&key, &declared).await.expect_status(200);
    assert_eq!(entry(&answer)["missingChunks"].as_array().unwrap().len(), 2);
    let raw = Part::file("file", &sha1(chunks[2]), chunks[2]);
    assert_eq!(world.send_chunks(&key, &[Part::chunk(chunks[1]), raw]).await.status, 200);

    let answer = world.assemble(&key, &declared).await.expect_status(200);
    assert!(["assembling", "ok"].contains(&entry(&answer)["state"].as_str().unwrap()), "{answer}");
    let answer = world.finished(&key, &declared).await;
    let file = entry(&answer);
    assert_eq!((&file["state"], &file["missingChunks"]), (&json!("ok"), &json!([])), "{answer}");
    assert_eq!((&file["dif"]["debugId"], &file["dif"]["objectName"]), (&json!(debug_id), &json!("app")));
    assert_eq!((&file["dif"]["cpuName"], &file["dif"]["data"]["type"]), (&json!("arm64"), &json!("dbg")));
    world.until_ready(&key, &debug_id).await;
    assert_eq!(world.number("SELECT count(*) FROM uploads WHERE app = 'com.example.shop'").await, 1);

    // The chunks no longer count beside the file.
    let mut tx = world.store.tenant(&TenantId::new("acme").unwrap()).await.unwrap();
    assert_eq!(usage::read_symbol_bytes(&mut tx).await.unwrap().stored, bytes.len() as u64);
    tx.rollback().await.unwrap();
    // Nor are they stored beside it.
    assert_eq!(world.number("SELECT count(*) FROM uploader_chunks").await, 0);
    assert_eq!(stored_chunks(&world, 0).await, 0);
    let answer = world.assemble(&key, &declared).await.expect_status(200);
    assert_eq!(entry(&answer)["state"], "ok");
    world.stop().await;
}

/// Waits until the bucket has this number of chunks. Returns the number that it has.
async fn stored_chunks(world: &UploadWorld, expected: usize) -> usize {
    let mut found = 0;
    wait_until(async || {
        let objects = world.list_objects("acme").await;
        found = objects.iter().filter(|key| key.contains("/chunks/")).count();
        found == expected
    })
    .await;
    found
}

/// The bytes that a tenant stores are those that count, whatever it sends again and deletes.
#[tokio::test]
async fn a_chunk_is_stored_once_and_stays_for_a_file_that_waits() {
    let mut world = UploadWorld::start().await;
    world.start_builder();
    let key = world.create_key("acme", &SCOPES).await;
    let large = vec![7; 8 << 20];
    let twice = [Part::chunk(&large), Part::chunk(b"small"), Part::chunk(&large)];
    assert_eq!(world.send_chunks(&key, &twice).await.status, 200);
    assert_eq!(stored_chunks(&world, 2).await, 2);
    world.execute("DELETE FROM uploader_chunks").await;

    let (bytes, _) = fixture("app");
    let chunks: Vec<&[u8]> = bytes.chunks(bytes.len() / 3 + 1).collect();
    let parts: Vec<Part<'_>> = chunks.iter().map(|chunk| Part::chunk(chunk)).collect();
    assert_eq!(world.send_chunks(&key, &parts).await.status, 200);
    // Another file has the first chunk, and its turn comes later.
    let waiting = format!(
        "INSERT INTO uploader_files (tenant, app, sha1, name, chunks, file_use, one_app, file_limit, state, attempts, due_at,
                                     updated_at)
         VALUES ('acme', 'other', decode('{first}', 'hex'), 'other', decode('{first}', 'hex'), 'debug_file', false, 1000000,
                 'waiting', 0, now() + interval '1 hour', now())",
        first = sha1(chunks[0])
    );
    world.execute(&waiting).await;
    let declared = declaration("app", &chunks);
    world.assemble(&key, &declared).await.expect_status(200);
    assert_eq!(entry(&world.finished(&key, &declared).await)["state"], "ok");
    let kept = world.text("SELECT encode(sha1, 'hex') FROM uploader_chunks WHERE counted").await;
    assert_eq!(kept, sha1(chunks[0]));
    assert_eq!(world.number("SELECT count(*) FROM uploader_chunks").await, 1);
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn the_key_decides_the_tenant_and_the_app() {
    let world = UploadWorld::start().await;
    let key = world.create_key("acme", &SCOPES).await;
    let foreign = world.create_key("umbrella", &SCOPES).await;
    let chunk = b"abc";
    assert_eq!(world.send_chunks(&key, &[Part::chunk(chunk)]).await.status, 200);
    let failure = |answer: unslide_world::Answer| {
        let body = answer.parse_json();
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        (answer.status.as_u16(), body["detail"].as_str().unwrap().to_owned())
    };
    let unknown = world.get("/api/0/organizations/nobody/chunk-upload/", &key).await;
    let other = world.get("/api/0/organizations/umbrella/chunk-upload/", &key).await;
    let unknown = failure(unknown);
    assert_eq!(unknown.0, 404);
    assert_eq!(failure(other), unknown);
    assert_eq!(failure(world.options("no-such-key").await).0, 401);
    assert_eq!(failure(world.options("").await).0, 401);
    let reader = world.create_key("acme", &[unslide_model::Scope::SymbolsRead]).await;
    assert_eq!(failure(world.options(&reader).await).0, 403);
    assert_eq!(failure(world.get("/api/0/projects/acme/x/files/dsyms/", &key).await).0, 404);
    let maps = world.post_json("/api/0/organizations/acme/artifactbundle/assemble/", &key, &json!({})).await;
    assert_eq!(failure(maps).0, 400);

    // Another tenant has to send the same chunk itself.
    let declared = declaration("x", &[chunk]);
    let path = format!("/api/0/projects/umbrella/{APP}/files/difs/assemble/");
    let answer = world.post_json(&path, &foreign, &declared).await.expect_status(200);
    assert_eq!(entry(&answer)["missingChunks"], json!([sha1(chunk)]));

    let for_app = world.key_for("acme", &SCOPES, Some("com.example.other")).await;
    assert_eq!(failure(world.assemble(&for_app, &declared).await).0, 403);
    let organization = world.get("/api/0/organizations/acme/", &key).await.expect_status(200);
    assert_eq!(organization["links"]["regionUrl"], world.url);
    assert_eq!(
        world.get("/api/0/", &key).await.expect_status(200)["auth"]["scopes"],
        json!(["project:write"])
    );
    world.stop().await;
}

#[tokio::test]
async fn hashes_that_lie_and_chunks_that_are_too_large_are_refused() {
    let world = UploadWorld::start().await;
    let key = world.create_key("acme", &SCOPES).await;
    let (bytes, _) = fixture("app");
    let lying = Part { file_name: Some(sha1(b"other")), ..Part::chunk(&bytes) };
    let answer = world.send_chunks(&key, &[lying]).await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.parse_json()["detail"].as_str().unwrap().contains("arrived with the SHA-1"),
        "{}",
        answer.text
    );
    let bomb = vec![0; (8 << 20) + 1];
    let answer = world.send_chunks(&key, &[Part::chunk(&bomb)]).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    let unnamed = Part { file_name: Some("chunk".to_owned()), ..Part::chunk(b"a") };
    assert_eq!(world.send_chunks(&key, &[unnamed]).await.status, 400);
    let tiny: Vec<Part<'_>> = (0..300_u32).map(|n| Part::chunk(&n.to_le_bytes())).collect();
    assert_eq!(world.send_chunks(&key, &tiny).await.status, 413);
    assert_eq!(world.number("SELECT count(*) FROM uploader_chunks").await, 0);

    // A file that its chunks do not make.
    assert_eq!(world.send_chunks(&key, &[Part::chunk(&bytes)]).await.status, 200);
    let lie = json!({ sha1(b"lie"): { "name": "app", "chunks": [sha1(&bytes)] } });
    let answer = world.finished(&key, &lie).await;
    assert_eq!(entry(&answer)["state"], "error", "{answer}");
    assert!(entry(&answer)["detail"].as_str().unwrap().contains("make a file with the SHA-1"), "{answer}");
    assert_eq!(world.number("SELECT count(*) FROM uploads WHERE status <> 'failed'").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM uploader_chunks WHERE counted").await, 1);

    // A file of a format that no symbols are built from.
    let text = b"no debug file";
    assert_eq!(world.send_chunks(&key, &[Part::chunk(text)]).await.status, 200);
    let answer = world.finished(&key, &declaration("text", &[text])).await;
    assert_eq!(entry(&answer)["state"], "error", "{answer}");
    let empty = json!({ sha1(b""): { "name": "empty", "chunks": [] } });
    assert_eq!(entry(&world.assemble(&key, &empty).await.expect_status(200))["state"], "error");
    for wrong in [json!([]), json!({"x": {"chunks": []}}), json!({ sha1(b"a"): {} })] {
        assert_eq!(world.assemble(&key, &wrong).await.status, 400, "{wrong}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_source_bundle_is_acknowledged_with_a_remark() {
    let world = UploadWorld::start().await;
    let key = world.create_key("acme", &SCOPES).await;
    let bundle = b"SYSB\x02\0\0\0PK\x03\x04";
    assert_eq!(world.send_chunks(&key, &[Part::chunk(bundle)]).await.status, 200);
    let answer = world.finished(&key, &declaration("app.src.zip", &[bundle])).await;
    assert_eq!(entry(&answer)["state"], "ok", "{answer}");
    assert!(entry(&answer)["detail"].as_str().unwrap().starts_with("source bundles are not stored"));
    assert_eq!(world.number("SELECT count(*) FROM uploads").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn chunks_count_against_the_limit_and_expire() {
    let world = UploadWorld::start().await;
    world.change_limits("acme", &QuotaLimits { symbol_bytes: 10_000, ..QuotaLimits::default() }).await;
    let key = world.create_key("acme", &SCOPES).await;
    assert_eq!(world.send_chunks(&key, &[Part::chunk(&[1; 9_000])]).await.status, 200);
    let answer = world.send_chunks(&key, &[Part::chunk(&[2; 9_000])]).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    assert!(
        answer.parse_json()["detail"].as_str().unwrap().contains("the limit is 10000"),
        "{}",
        answer.text
    );
    // What was refused left no object.
    let stored = world.list_objects("acme").await;
    assert_eq!(stored.iter().filter(|key| key.contains("/chunks/")).count(), 1, "{stored:?}");
    assert_eq!(
        world
            .number("SELECT count(*) FROM condemned_objects WHERE condemned_at > now() + interval '24 hours'")
            .await,
        2
    );

    let declared = declaration("x", &[&[1; 9_000], &[3; 9]]);
    world.execute("UPDATE uploader_chunks SET expires_at = now() + interval '50 minutes'").await;
    let answer = world.assemble(&key, &declared).await.expect_status(200);
    assert_eq!(
        entry(&answer)["missingChunks"].as_array().unwrap().len(),
        2,
        "it expires before the rest is sent"
    );
    world.execute("UPDATE uploader_chunks SET expires_at = now() - interval '1 minute'").await;
    assert_eq!(unslide_store::tables::purge_old_rows(&world.store).await.unwrap(), 1);
    assert_eq!(world.number("SELECT count(*) FROM uploader_chunks").await, 0);
    assert_eq!(world.send_chunks(&key, &[Part::chunk(&[2; 9_000])]).await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn a_file_that_a_process_left_is_made_by_another_one() {
    let world = UploadWorld::start().await;
    let key = world.create_key("acme", &SCOPES).await;
    let (bytes, _) = fixture("app");
    assert_eq!(world.send_chunks(&key, &[Part::chunk(&bytes)]).await.status, 200);
    let sha1 = sha1(&bytes);
    // The row as a process leaves it that died, with a claim that has ended.
    world
        .execute(&format!(
            "INSERT INTO uploader_files (tenant, app, sha1, name, chunks, file_use, one_app, file_limit, state, attempts, due_at, updated_at)
             VALUES ('acme', '{APP}', '\\x{sha1}', 'app', '\\x{sha1}', 'debug_file', false, 1000000000, 'waiting', 1, now() - interval '1 minute', now())"
        ))
        .await;
    let is_stored =
        async || world.number("SELECT count(*) FROM uploader_files WHERE state = 'stored'").await == 1;
    assert!(unslide_world::wait_until(is_stored).await);
    assert_eq!(world.number("SELECT count(*) FROM uploads WHERE status = 'queued'").await, 1);
    // Chunks that are lost are sent again.
    world
        .execute("UPDATE uploader_files SET state = 'waiting', upload_id = NULL, due_at = now(); DELETE FROM uploader_chunks")
        .await;
    let is_gone = async || world.number("SELECT count(*) FROM uploader_files").await == 0;
    assert!(unslide_world::wait_until(is_gone).await);
    let answer = world.assemble(&key, &declaration("app", &[&bytes])).await.expect_status(200);
    assert_eq!(entry(&answer)["missingChunks"], json!([sha1]));
    world.stop().await;
}

/// Runs the command. It prints the token to the output of the test.
async fn print_token(world: &UploadWorld, key: &str) {
    let command = &unslide_commands::uploaders::FEATURE.commands[0];
    let matches =
        (command.command)().get_matches_from(["sentry-token", "--url", &world.url, "--api-key", key]);
    let exit = tokio::task::spawn_blocking(move || (command.run)(&matches).unwrap()).await.unwrap();
    assert_eq!(exit, unslide_cli::Exit::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_its_key_and_its_claim_gives_nothing() {
    let world = UploadWorld::start().await;
    let key = world.create_key("acme", &SCOPES).await;
    let tenant = TenantId::new("acme").unwrap();
    let token = |tenant: &TenantId| {
        let claim = SentryTokenClaim { tenant: tenant.as_str(), url: &world.url, issued_at: 1 };
        write_sentry_token(&key, &claim).unwrap()
    };
    world.options(&token(&tenant)).await.expect_status(200);
    print_token(&world, &key).await;
    let other = token(&TenantId::new("umbrella").unwrap());
    assert_eq!(world.options(&other).await.status, 401);
    let path = "/api/0/organizations/umbrella/chunk-upload/";
    assert_eq!(world.send(world.request(Method::GET, path, &other)).await.status, 401);
    // It is no key of the API itself.
    world.get("/v1/symbols", &token(&tenant)).await.expect_problem(401, "unauthorized");
    world.stop().await;
}
