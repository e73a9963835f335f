//! Source maps of real bundles: every mapping is held against Mozilla's `source-map`.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use unslide_model::DebugId;
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{Context, ImageSymbols, build_source_map, enrich};

const ID: DebugId = DebugId([7; 16]);
/// Frames of a report.
const FRAMES: usize = 200;

/// Where `scripts/setup test` has put the bundler and the other reader.
fn tools() -> PathBuf {
    let cache = std::env::var_os("UNSLIDE_CACHE").map(PathBuf::from);
    let base = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    cache.unwrap_or_else(|| base().unwrap_or_else(home).join("unslide")).join("tools/javascript")
}

/// Two bundles with their maps, and what the other reader says of each.
fn bundles() -> (tempfile::TempDir, Value) {
    let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/javascript");
    // Modules are looked for beside the script.
    let modules = tools().join("node_modules");
    std::os::unix::fs::symlink(&modules, work.path().join("node_modules")).unwrap();
    std::fs::create_dir(work.path().join("src")).unwrap();
    for file in ["answers.mjs", "package.json", "src/cart.ts", "src/main.ts", "src/money.ts"] {
        std::fs::copy(source.join(file), work.path().join(file)).unwrap();
    }
    let done = Command::new("node").arg("answers.mjs").arg(folder.path()).current_dir(work.path()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    (folder, serde_json::from_slice(&done.stdout).unwrap())
}

/// The frames that are said of a backtrace.
fn answered(map: &[u8], backtrace: &Value) -> Value {
    let symcache = SymCache::parse(build_source_map(map, ID).unwrap().symcache).unwrap();
    let found = ImageSymbols::found(Arc::new(symcache));
    let user = json!({"name": "RangeError", "language": "javascript", "debug_id": ID.to_string(), "backtrace": backtrace});
    let report = json!({"crash": {"error": {"type": "user", "user_reported": user}}}).to_string();
    let report = Report::read(report.as_bytes(), &ReadLimits::default()).unwrap();
    let enriched = enrich(&report, &|id| (*id == ID).then_some(&found), &Context::default());
    serde_json::from_slice::<Value>(&enriched.bytes).unwrap()["symbolication"].clone()
}

#[test]
fn every_mapping_of_a_bundle_leads_where_mozillas_reader_says() {
    let (folder, bundles) = bundles();
    for name in ["plain", "small"] {
        let map = std::fs::read(folder.path().join(format!("{name}.js.map"))).unwrap();
        // The same place may be mapped twice; what it means is the same for both readers only where it is not.
        let mut expected: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
        for mapping in bundles[name]["mappings"].as_array().unwrap() {
            let place = (mapping[0].as_u64().unwrap(), mapping[1].as_u64().unwrap());
            expected.entry(place).or_default().push(mapping);
        }
        let expected: Vec<_> = expected.into_iter().filter(|(_, all)| all.len() == 1).collect();
        assert!(expected.len() > 100, "{name}: {}", expected.len());
        for part in expected.chunks(FRAMES) {
            let frame = |(line, column): &(u64, u64)| json!({"methodName": "f", "file": format!("{name}.js"), "lineNumber": line, "column": column});
            let frames: Vec<Value> = part.iter().map(|(place, _)| frame(place)).collect();
            let ours = answered(&map, &frames.into());
            for (at, (place, theirs)) in part.iter().enumerate() {
                let own = &ours["javascript"]["frames"][at];
                let said = json!([own["file"], own["line"], own["column"].as_u64().map(|column| column - 1)]);
                let theirs = theirs[0];
                assert_eq!(said, json!([theirs[2], theirs[3], theirs[4]]), "{name} at {place:?}");
            }
        }
    }
}

#[test]
fn the_stack_of_an_engine_leads_to_the_lines_that_were_written() {
    let (folder, bundles) = bundles();
    let written =
        [("cart.ts", 20), ("cart.ts", 13), ("", 0), ("cart.ts", 13), ("main.ts", 5), ("main.ts", 11)];
    for name in ["plain", "small"] {
        let map = std::fs::read(folder.path().join(format!("{name}.js.map"))).unwrap();
        let ours = answered(&map, &bundles[name]["stack"]);
        for (at, (file, line)) in written.into_iter().enumerate() {
            let own = &ours["javascript"]["frames"][at];
            let path = own["file"].as_str().unwrap_or_default();
            assert!(path.ends_with(file), "{name} {at}: {own}");
            assert_eq!(own["line"].as_u64().unwrap_or(0), line, "{name} {at}: {own}");
        }
        let context = &ours["javascript"]["frames"][0]["context"];
        assert_eq!(
            context["lines"][5],
            "    throw new RangeError(`“${item.title}” costs less than nothing 😀`);"
        );
        assert_eq!(ours["grouping"]["kind"], "javascript", "{ours}");
    }
    // What a minifier has renamed is named by those who call it.
    let ours =
        answered(&std::fs::read(folder.path().join("small.js.map")).unwrap(), &bundles["small"]["stack"]);
    let function =
        |at: usize| ours["javascript"]["frames"][at]["function"].as_str().unwrap_or_default().to_owned();
    assert_eq!([function(0), function(4)], ["priceOf", "checkout"], "{ours}");
}
