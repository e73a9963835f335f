//! LLVM's own client of debuginfod.

use crate::symbol_server::world::SymbolWorld;
use std::process::Command;
use unslide_model::Scope;
use unslide_testkit::fixtures;

/// The client of the LLVM version that makes the fixtures.
const CLIENT: &str = "llvm-debuginfod-find-19";

#[tokio::test(flavor = "multi_thread")]
async fn llvms_client_finds_a_dsym_with_a_key_from_its_headers_file() {
    let test = "llvms_client_finds_a_dsym_with_a_key_from_its_headers_file";
    if Command::new(CLIENT).arg("--version").output().is_err() {
        return fixtures::skipped(test, "llvm-debuginfod-find-19 is missing (Debian: llvm-19)");
    }
    let world = SymbolWorld::start().await;
    let app = world.upload_dsym("acme", "app").await;
    let folder = tempfile::tempdir().unwrap();
    let find = async |key: &str| {
        let headers = folder.path().join("headers");
        std::fs::write(&headers, format!("Authorization: Bearer {key}\n")).unwrap();
        let mut command = Command::new(CLIENT);
        command.arg("--debuginfo").arg(app.ids[0].to_compact());
        command.env("DEBUGINFOD_URLS", format!("{}/debuginfod", world.url));
        command.env("DEBUGINFOD_HEADERS_FILE", &headers);
        command.env("DEBUGINFOD_CACHE_PATH", folder.path().join("cache"));
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    let refused = find(&world.create_key("umbrella", &[Scope::SymbolsDownload]).await).await;
    assert!(!refused.status.success());
    let found = find(&world.create_key("acme", &[Scope::SymbolsDownload]).await).await;
    let error = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(found.status.success(), "{error}");
    let path = String::from_utf8(found.stdout).unwrap();
    assert_eq!(std::fs::read(path.trim()).unwrap(), app.slices[0], "{path}");
    world.stop().await;
}
