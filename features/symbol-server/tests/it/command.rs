//! `unslide dsym-for-uuid` with an api.

use crate::symbol_server::world::SymbolWorld;
use std::path::{Path, PathBuf};
use unslide_cli::Exit;
use unslide_commands::symbol_server::FEATURE;
use unslide_model::Scope;

/// Runs the command. It prints its answer to the output of the test.
async fn run(url: &str, key: &str, cache: &Path, image: &str) -> Exit {
    let cache = cache.to_str().unwrap();
    let line = ["dsym-for-uuid", "--url", url, "--api-key", key, "--cache", cache, "--copyExecutable", image];
    let matches = (FEATURE.commands[0].command)().get_matches_from(line);
    tokio::task::spawn_blocking(move || (FEATURE.commands[0].run)(&matches).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dsym_is_downloaded_once_and_then_comes_from_the_folder() {
    let world = SymbolWorld::start().await;
    let app = world.upload_dsym("acme", "app").await;
    let (id, folder) = (app.ids[0].to_string().to_uppercase(), tempfile::tempdir().unwrap());
    let dwarf: PathBuf = folder.path().join(&id).join("app.dSYM/Contents/Resources/DWARF/app");
    let foreign = world.create_key("umbrella", &[Scope::SymbolsDownload]).await;
    assert_eq!(run(&world.url, &foreign, folder.path(), &id).await, Exit::Ready);
    assert!(!dwarf.exists());
    let key = world.create_key("acme", &[Scope::SymbolsDownload]).await;
    assert_eq!(run(&world.url, &key, folder.path(), &id).await, Exit::Ready);
    assert_eq!(std::fs::read(&dwarf).unwrap(), app.slices[0]);
    let used_before = std::fs::metadata(folder.path().join(&id)).unwrap().modified().unwrap();
    assert_eq!(run("http://127.0.0.1:9", &key, folder.path(), &id).await, Exit::Ready);
    let used = std::fs::metadata(folder.path().join(&id)).unwrap().modified().unwrap();
    assert!(used >= used_before && dwarf.exists());
    world.stop().await;
}
