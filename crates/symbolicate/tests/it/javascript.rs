//! Source maps of real bundles: every mapping and every frame is held against Mozilla's `source-map`, and functions
//! against Metro's reader of function maps.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use unslide_model::DebugId;
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{BundleIdentity, Context, ImageSymbols, build_source_map, enrich};
use unslide_testkit::fixtures::{find_tool, make_once};

const ID: DebugId = DebugId([7; 16]);
/// Frames of a report.
const FRAMES: usize = 200;
/// What other readers say of esbuild's bundles.
static ESBUILD: LazyLock<Value> = LazyLock::new(|| bundles("answers.mjs"));
/// What they say of the bundles of React Native.
static METRO: LazyLock<Value> = LazyLock::new(|| bundles("metro.mjs"));

/// What Babel's parser says of functions, and bundles that terser has minified.
static NAMES: LazyLock<Value> = LazyLock::new(|| bundles("names.mjs"));

/// Where `scripts/setup test` has put the bundlers and the other readers.
fn tools() -> PathBuf {
    let cache = std::env::var_os("UNSLIDE_CACHE").map(PathBuf::from);
    let base = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    cache.unwrap_or_else(|| base().unwrap_or_else(home).join("unslide")).join("tools/javascript")
}

/// Node.js: the one that `scripts/setup test` has put there where that of the system is too old, or that of the system.
fn node() -> PathBuf {
    let own = tools().join("../bin/node");
    if own.exists() { own } else { find_tool("node") }
}

/// What a script of `tests/javascript` prints: each bundle by its name.
fn bundles(script: &str) -> Value {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/javascript");
    let answers = make_once(&format!("javascript-{script}"), [source.as_path(), &node()], |target| {
        std::fs::write(target.join("answers.json"), run_script(script, &source)).unwrap();
    });
    serde_json::from_slice(&std::fs::read(answers.join("answers.json")).unwrap()).unwrap()
}

fn run_script(script: &str, source: &Path) -> Vec<u8> {
    let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Modules are looked for beside the script.
    let modules = tools().join("node_modules");
    std::os::unix::fs::symlink(&modules, work.path().join("node_modules")).unwrap();
    std::fs::create_dir(work.path().join("src")).unwrap();
    for place in ["", "src"] {
        for file in std::fs::read_dir(source.join(place)).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                std::fs::copy(&file, work.path().join(place).join(file.file_name().unwrap())).unwrap();
            }
        }
    }
    let mut node = Command::new(node());
    // Metro writes what it knows of the files into the folder for temporary files.
    node.arg(script).arg(folder.path()).current_dir(work.path()).env("TMPDIR", folder.path());
    let done = node.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

fn symbols(bundle: &Value, id: DebugId) -> ImageSymbols {
    let map = bundle["map"].as_str().unwrap().as_bytes();
    ImageSymbols::from_symcache(Arc::new(
        SymCache::parse(build_source_map(map, id).unwrap().symcache).unwrap(),
    ))
}

/// What is said of a report where these maps are known.
fn enriched(report: &Value, maps: &HashMap<DebugId, ImageSymbols>) -> Value {
    let report = report.to_string();
    let report = Report::read(report.as_bytes(), &ReadLimits::default()).unwrap();
    let enriched = enrich(&report, &|id| maps.get(id), &Context::default());
    serde_json::from_slice::<Value>(&enriched.bytes).unwrap()["symbolication"].clone()
}

/// What is said of a backtrace.
fn answered(bundle: &Value, backtrace: &Value) -> Value {
    let user = json!({"name": "RangeError", "language": "javascript", "debug_id": ID.to_string(), "backtrace": backtrace});
    let report = json!({"crash": {"error": {"type": "user", "user_reported": user}}});
    enriched(&report, &HashMap::from([(ID, symbols(bundle, ID))]))
}

/// Column of an answer, from 0.
fn column(own: &Value) -> Option<u64> {
    own["column"].as_u64().map(|column| column - 1)
}

fn assert_mappings(name: &str, bundle: &Value) {
    // The same place may be mapped twice; what it means is the same for both readers only where it is not.
    let mut expected: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
    for mapping in bundle["mappings"].as_array().unwrap() {
        let place = (mapping[0].as_u64().unwrap(), mapping[1].as_u64().unwrap());
        expected.entry(place).or_default().push(mapping);
    }
    let expected: Vec<_> = expected.into_iter().filter(|(_, all)| all.len() == 1).collect();
    assert!(expected.len() > 100, "{name}: {}", expected.len());
    for part in expected.chunks(FRAMES) {
        let frame = |(line, column): &(u64, u64)| json!({"methodName": "f", "file": bundle["file"], "lineNumber": line, "column": column});
        let frames: Vec<Value> = part.iter().map(|(place, _)| frame(place)).collect();
        let ours = answered(bundle, &frames.into());
        for (at, (place, theirs)) in part.iter().enumerate() {
            let own = &ours["javascript"]["frames"][at];
            let function = own["function"].as_str().filter(|_| own["function_source"] == "function_map");
            let said = match own["status"].as_str() {
                Some("missing_symbol") => json!([null, null, null, null]),
                _ => json!([own["file"], own["line"], column(own), function]),
            };
            let theirs = &theirs[0];
            assert_eq!(said, json!([theirs[2], theirs[3], theirs[4], theirs[5]]), "{name} at {place:?}");
        }
    }
}

#[test]
fn every_mapping_of_a_bundle_leads_where_mozillas_reader_says() {
    for (name, bundle) in ESBUILD.as_object().unwrap() {
        assert_mappings(name, bundle);
    }
}

#[test]
fn every_mapping_of_react_native_leads_where_other_readers_say() {
    for (name, bundle) in METRO.as_object().unwrap() {
        assert_mappings(name, bundle);
    }
}

/// What is said of a frame, as `tests/javascript/readers.mjs` says it.
fn as_other_readers(own: &Value) -> Value {
    match own["status"].as_str() {
        Some("device") => Value::Null,
        Some("missing_symbol") => json!({}),
        _ => {
            let first = own["context"]["first_line"].as_u64().unwrap_or_default();
            let at = usize::try_from(own["line"].as_u64().unwrap() - first).unwrap();
            json!({"file": own["file"], "line": own["line"], "column": column(own), "function": own["function"],
                "library": own["in_app"] != true, "written": own["context"]["lines"][at]})
        }
    }
}

#[test]
fn every_frame_of_errors_in_react_native_leads_where_other_readers_say() {
    for (name, bundle) in METRO.as_object().unwrap() {
        for thrown in bundle["stacks"].as_array().unwrap() {
            let ours = answered(bundle, &thrown["stack"]);
            let ours: Vec<Value> =
                ours["javascript"]["frames"].as_array().unwrap().iter().map(as_other_readers).collect();
            assert_eq!(Value::from(ours), thrown["frames"], "{name}: {}", thrown["stack"]);
        }
    }
}

/// Bundles of one app that V8 and Hermes have run: minified and not, whole, in modules, and as bytecode.
#[test]
fn errors_in_react_native_lead_to_the_lines_that_were_written() {
    let (mut groups, mut run) = (BTreeSet::new(), BTreeSet::new());
    for (name, bundle) in METRO.as_object().unwrap() {
        let stacks = bundle["stacks"].as_array().unwrap();
        let button = match name.as_str() {
            "ios" | "ram" => ("press", "button.ios.ts", 3),
            _ => ("press", "button.android.ts", 7),
        };
        let written =
            [("priceOf", "cart.ts", 20), ("inner", "nested.ts", 4), button, ("Loader#get", "late.ts", 6)];
        for (thrown, (function, file, line)) in stacks.iter().zip(written) {
            let ours = answered(bundle, &thrown["stack"]);
            let own = &ours["javascript"]["frames"][0];
            assert_eq!((&own["function"], &own["line"]), (&json!(function), &json!(line)), "{name}: {own}");
            assert!(own["file"].as_str().unwrap().ends_with(file), "{name}: {own}");
            if file == "late.ts" {
                groups.insert(ours["grouping"]["fingerprint"].to_string());
            }
        }
        run.extend((stacks.len() == written.len()).then_some(name.as_str()));
    }
    assert_eq!(groups.len(), 1, "the same bug is one group on every engine");
    // There are no programs of Hermes for Linux on ARM.
    let hermes = cfg!(any(target_os = "macos", target_arch = "x86_64")).then_some("hermes");
    assert_eq!(run, ["android", "ios", "ram"].into_iter().chain(hermes).collect::<BTreeSet<_>>());
}

#[test]
fn bundles_of_two_platforms_with_one_name_keep_their_own_maps() {
    let id = |platform| {
        let app = "com.example.shop";
        BundleIdentity { app, platform, version: "1.2", build: "7", bundle: "shop.bundle" }.debug_id()
    };
    let maps = ["ios", "android"].map(|platform| (id(platform), symbols(&METRO[platform], id(platform))));
    let maps = HashMap::from(maps);
    for (platform, system_name) in [("ios", "iOS"), ("android", "Android")] {
        let system = json!({"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.2",
            "CFBundleVersion": "7", "system_name": system_name});
        let stack = &METRO[platform]["stacks"][2]["stack"];
        let user = json!({"name": "TypeError", "language": "react-native", "backtrace": stack});
        let report = json!({"system": system, "crash": {"error": {"type": "user", "user_reported": user}}});
        let ours = enriched(&report, &maps);
        let file = ours["javascript"]["frames"][0]["file"].as_str().unwrap_or_default().to_owned();
        assert!(file.ends_with(&format!("button.{platform}.ts")), "{ours}");
    }
}

#[test]
fn the_stack_of_an_engine_leads_to_the_lines_that_were_written() {
    let written =
        [("cart.ts", 20), ("cart.ts", 13), ("", 0), ("cart.ts", 13), ("main.ts", 5), ("main.ts", 11)];
    for name in ["plain", "small"] {
        let ours = answered(&ESBUILD[name], &ESBUILD[name]["stack"]);
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
    let ours = answered(&ESBUILD["small"], &ESBUILD["small"]["stack"]);
    let function =
        |at: usize| ours["javascript"]["frames"][at]["function"].as_str().unwrap_or_default().to_owned();
    assert_eq!([function(0), function(4)], ["priceOf", "checkout"], "{ours}");
}

#[test]
fn functions_of_real_sources_are_those_that_a_parser_finds() {
    let sources = &NAMES["sources"];
    let maps = HashMap::from([(ID, symbols(sources, ID))]);
    let functions = sources["functions"].as_array().unwrap();
    assert!(functions.len() > 1_000, "{}", functions.len());
    for (chunk, expected) in functions.chunks(FRAMES).enumerate() {
        let columns = chunk * FRAMES..;
        let frame = |column: usize| json!({"file": "all.js", "lineNumber": 1, "column": column});
        let frames: Vec<Value> = columns.take(expected.len()).map(frame).collect();
        let user =
            json!({"name": "E", "language": "javascript", "debug_id": ID.to_string(), "backtrace": frames});
        let ours = enriched(&json!({"crash": {"error": {"type": "user", "user_reported": user}}}), &maps);
        for (own, expected) in ours["javascript"]["frames"].as_array().unwrap().iter().zip(expected) {
            assert_eq!(own["function"], *expected, "{own}");
            assert!(expected.is_null() || own["function_source"] == "scope", "{own}");
        }
    }
}

#[test]
fn bugs_of_a_bundle_that_terser_has_minified_keep_their_names_and_groups() {
    for (name, has_text) in [("kept", true), ("kept", false), ("mangled", true), ("mangled", false)] {
        let mut bundle = NAMES[name].clone();
        if !has_text {
            let mut map: Value = serde_json::from_str(bundle["map"].as_str().unwrap()).unwrap();
            map.as_object_mut().unwrap().remove("sourcesContent");
            bundle["map"] = map.to_string().into();
        }
        let answers: Vec<Value> =
            bundle["stacks"].as_array().unwrap().iter().map(|stack| answered(&bundle, stack)).collect();
        let named = |answer: usize, frame: usize| {
            let own = &answers[answer]["javascript"]["frames"][frame];
            let text = |key: &str| own[key].as_str().unwrap_or_default().to_owned();
            (text("function"), text("function_source"), own["approximate"] == true)
        };
        let said =
            |function: &str, source: &str| (function.to_owned(), source.to_owned(), source == "caller");
        let culprits: Vec<_> = answers.iter().map(|answer| answer["grouping"]["culprit"].clone()).collect();
        let is_one_group = answers[0]["grouping"]["fingerprint"] == answers[1]["grouping"]["fingerprint"];
        if !has_text && name == "mangled" {
            // Nothing but the call knows a name.
            assert_eq!((named(0, 0), named(1, 0)), (said("handler", "caller"), said("handler", "caller")));
            continue;
        }
        let source = if has_text { "scope" } else { "device" };
        assert_eq!((named(0, 0), named(1, 0)), (said("buy", source), said("login", source)), "{name}");
        assert_eq!(named(0, 1), said("dispatch", source), "{name}");
        assert_eq!(culprits, [json!("buy (shop.js)"), json!("login (shop.js)")], "{name}");
        assert!(!is_one_group, "{name}");
        if has_text {
            assert_eq!(named(0, 2), said("Checkout.step2", "scope"), "{name}");
        }
    }
}
