//! Files of symbols, read back by their debug ids.

use crate::symbol_server::world::{APP, SymbolWorld};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::json;
use unslide_model::Scope;
use unslide_testkit::fixtures;

struct Downloaded {
    status: u16,
    headers: HeaderMap,
    bytes: Vec<u8>,
}

async fn download(
    world: &SymbolWorld,
    path: &str,
    key: &str,
    headers: &[(&'static str, String)],
) -> Downloaded {
    let mut request = world.request(Method::GET, path, key);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Downloaded { status, headers, bytes: answer.bytes().await.unwrap().to_vec() }
}

#[tokio::test]
async fn each_slice_comes_back_byte_for_byte_whole_and_in_parts() {
    let world = SymbolWorld::start().await;
    let kit = world.upload_dsym("acme", "kit").await;
    let key = world.create_key("acme", &[Scope::SymbolsDownload]).await;
    for (id, slice) in kit.ids.iter().zip(&kit.slices) {
        let path = format!("/v1/symbols/{id}/file");
        let whole = download(&world, &path, &key, &[]).await;
        assert_eq!((whole.status, &whole.bytes), (200, slice));
        assert_eq!(whole.headers["content-length"], slice.len().to_string().as_str());
        assert_eq!(whole.headers["content-disposition"], "attachment; filename=\"kit\"");
        assert_eq!(whole.headers["cache-control"], "no-store");
        let etag = whole.headers["etag"].to_str().unwrap().to_owned();
        let range = ("range", "bytes=100-199".to_owned());
        let part = download(&world, &path, &key, std::slice::from_ref(&range)).await;
        assert_eq!((part.status, part.bytes.as_slice()), (206, &slice[100..200]));
        assert_eq!(part.headers["content-range"], format!("bytes 100-199/{}", slice.len()).as_str());
        let changed = download(&world, &path, &key, &[range, ("if-range", "\"other\"".to_owned())]).await;
        assert_eq!((changed.status, changed.bytes.len()), (200, slice.len()));
        let kept = download(&world, &path, &key, &[("if-none-match", etag)]).await;
        assert_eq!((kept.status, kept.bytes.len()), (304, 0));
        let head = world.send(world.request(Method::HEAD, &path, &key)).await;
        assert_eq!((head.status.as_u16(), head.text.len()), (200, 0));
        assert_eq!(head.headers["content-length"], slice.len().to_string().as_str());
    }
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn only_a_key_with_the_scope_and_of_the_tenant_and_app_reads_a_file() {
    let world = SymbolWorld::start().await;
    let app = world.upload_dsym("acme", "app").await;
    let path = format!("/v1/symbols/{}/file", app.ids[0]);
    let others: Vec<Scope> =
        Scope::ALL.into_iter().filter(|scope| *scope != Scope::SymbolsDownload).collect();
    let pipeline = world.create_key("acme", &others).await;
    let detail = world.get(&path, &pipeline).await.expect_problem(403, "insufficient-scope");
    assert!(detail.contains("symbols:download"), "{detail}");
    let foreign = world.create_key("umbrella", &[Scope::SymbolsDownload]).await;
    let refused = world.get(&path, &foreign).await.expect_problem(404, "not-found");
    let absent = "/v1/symbols/01980000-0000-7000-8000-000000000001/file";
    assert_eq!(world.get(absent, &foreign).await.expect_problem(404, "not-found"), refused);
    let other_app = world.key_for("acme", &[Scope::SymbolsDownload], Some("com.example.other")).await;
    world.get(&path, &other_app).await.expect_problem(404, "not-found");
    let own_app = world.key_for("acme", &[Scope::SymbolsDownload], Some(APP)).await;
    assert_eq!(download(&world, &path, &own_app, &[]).await.status, 200);
    world.get(&format!("{path}?kind=executable"), &own_app).await.expect_problem(404, "not-found");
    world.get("/v1/symbols/xyz/file", &own_app).await.expect_problem(400, "invalid-parameter");
    // A key that only downloads does nothing else.
    world.get("/v1/symbols", &own_app).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn a_download_is_in_the_audit_log_once_an_hour() {
    let world = SymbolWorld::start().await;
    let app = world.upload_dsym("acme", "app").await;
    let key = world.create_key("acme", &[Scope::SymbolsDownload]).await;
    for path in ["/v1/symbols/{id}/file", "/debuginfod/buildid/{id}/debuginfo"] {
        let path = path.replace("{id}", &app.ids[0].to_compact());
        assert_eq!(download(&world, &path, &key, &[]).await.status, 200);
    }
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let log = world.get("/v1/audit-log", &admin).await.expect_status(200);
    let entries = log["items"].as_array().unwrap();
    let downloads: Vec<_> = entries.iter().filter(|entry| entry["action"] == "symbols.download").collect();
    assert_eq!(downloads.len(), 1, "{log}");
    assert_eq!(downloads[0]["subject"], json!(app.ids[0].to_string()));
    world.stop().await;
}

#[tokio::test]
async fn every_layout_leads_to_the_file() {
    let world = SymbolWorld::start().await;
    let dsym = world.upload_dsym("acme", "app").await;
    world.upload("acme", &fixtures::binary("app-symtab"), APP).await;
    let program = std::fs::read(fixtures::binary("app-symtab")).unwrap();
    let key = world.create_key("acme", &[Scope::SymbolsDownload]).await;
    let id = dsym.ids[0].to_compact();
    let upper = id.to_uppercase();
    let (first, rest) = id.split_at(2);
    let (folders, last) = upper.split_at(20);
    let folders: Vec<_> = folders.as_bytes().chunks(4).map(String::from_utf8_lossy).collect();
    let native = format!("{}/{last}", folders.join("/"));
    for (path, expected) in [
        (format!("/debuginfod/buildid/{id}/debuginfo"), &dsym.slices[0]),
        (format!("/debuginfod/buildid/{id}/executable"), &program),
        (format!("/symbol-server/{first}/{rest}/debuginfo"), &dsym.slices[0]),
        (format!("/symbol-server/{first}/{rest}/executable"), &program),
        (format!("/symbol-server/{native}"), &dsym.slices[0]),
        (format!("/symbol-server/{native}.app"), &program),
        (format!("/symbol-server/app/mach-uuid-{id}/app"), &program),
        (format!("/symbol-server/_.dwarf/mach-uuid-sym-{id}/_.dwarf"), &dsym.slices[0]),
    ] {
        let got = download(&world, &path, &key, &[]).await;
        assert_eq!((got.status, &got.bytes == expected), (200, true), "{path}");
        assert_eq!(got.headers["x-debuginfod-size"], expected.len().to_string().as_str(), "{path}");
    }
    let text = world.get(&format!("/symbol-server/app/{upper}0/app.sym"), &key).await;
    assert!(text.status == 200 && text.text.starts_with("MODULE mac arm64 "), "{}", text.text);
    for path in ["/symbol-server/index2.txt".to_owned(), format!("/debuginfod/{first}/{rest}/debuginfo")] {
        world.get(&path, &key).await.expect_problem(404, "not-found");
    }
    let path = format!("/debuginfod/buildid/{id}/debuginfo");
    world.get(&path, "").await.expect_problem(401, "unauthorized");
    let foreign = world.create_key("umbrella", &[Scope::SymbolsDownload]).await;
    world.get(&path, &foreign).await.expect_problem(404, "not-found");
    world
        .get(&format!("/symbol-server/app/{upper}0/app.sym"), &foreign)
        .await
        .expect_problem(404, "not-found");
    world.stop().await;
}
