mod components;

use crate::grouping::GroupingRules;
use crate::object::{ObjectError, ObjectKind, build_symcache, list_objects};
use crate::symcache::SymCache;
use crate::{
    BundleIdentity, Context, Detail, Enrichment, ImageSymbols, build_source_map, enrich, explain_report,
    grouping, with_debug_id,
};
use serde_json::{Value, json};
use std::sync::Arc;
use unslide_report::{ReadLimits, Report, splice};

const ID: &str = "6f9619ff-8b86-d011-b42d-00c04fc964ff";
const IDENTITY: BundleIdentity<'_> = BundleIdentity {
    app: "com.example.shop",
    platform: "ios",
    version: "1.2",
    build: "7",
    bundle: "main.jsbundle",
};

/// `cart.ts` with `total` at line 2 and a call of it at line 6, of a library that is called at column 40.
fn map() -> Value {
    json!({
        "version": 3,
        "sources": ["src/cart.ts", "node_modules/react/index.js"],
        "sourcesContent": ["function total(items) {\n  return items.map(price);\n}\n\nexport function pay(cart) {\n  return total(cart.items);\n}\n", "secret"],
        "names": ["items", "total"],
        // Line 1: 0 → 1:0, 10 → 2:9 (items), 20 → 6:9 (total), 30 → nothing, 40 → library 1:0.
        "mappings": "AAAA,UACSA,UAIAC,U,UCLT",
        "debugId": ID,
    })
}

fn symbols(map: &Value) -> ImageSymbols {
    let built = build_symcache(map.to_string().as_bytes()).unwrap();
    let cache = SymCache::parse(built.symcache).unwrap();
    cache.verify_checksum().unwrap();
    ImageSymbols::from_symcache(Arc::new(cache))
}

fn report(name: &str, frames: &[Value]) -> Vec<u8> {
    let system = json!({"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.2",
        "CFBundleVersion": "7", "system_name": "iOS"});
    let user = json!({"name": name, "language": "react-native", "backtrace": frames});
    let error = json!({"type": "user", "reason": "undefined is not an object 17", "user_reported": user});
    json!({"system": system, "crash": {"error": error}}).to_string().into_bytes()
}

fn frame(function: &str, column: u32) -> Value {
    let file = "app:///main.jsbundle?platform=ios";
    json!({"methodName": function, "file": file, "lineNumber": 1, "column": column})
}

fn frames() -> Vec<Value> {
    vec![
        frame("a", 14),
        frame("b", 20),
        frame("c", 33),
        frame("dispatch", 47),
        json!("forEach@[native code]"),
    ]
}

fn answered(bytes: &[u8], symbols: Option<&ImageSymbols>) -> (Enrichment, Value) {
    let report = Report::read(bytes, &ReadLimits::default()).unwrap();
    let enriched = enrich(&report, &|_| symbols, &Context::default());
    assert_eq!(splice::strip_additions(&enriched.bytes, &ReadLimits::default()).unwrap(), bytes);
    let json: Value = serde_json::from_slice(&enriched.bytes).unwrap();
    (enriched, json["symbolication"].clone())
}

/// The map with the id that the report gives its bundle.
fn own_map() -> Value {
    let mut map = map();
    map["x_unslide_debug_id"] = IDENTITY.debug_id().to_string().into();
    map
}

#[test]
fn frames_get_functions_files_lines_and_what_is_around() {
    let (enriched, ours) = answered(&report("TypeError", &frames()), Some(&symbols(&own_map())));
    let at = |frame: usize| ours["javascript"]["frames"][frame].clone();
    assert_eq!(at(0)["file"], "src/cart.ts");
    assert_eq!((at(0)["line"].as_u64(), at(0)["column"].as_u64()), (Some(2), Some(10)));
    assert_eq!((&at(0)["function"], &at(0)["function_source"]), (&json!("total"), &json!("scope")));
    assert!(at(0).get("approximate").is_none());
    assert_eq!(at(0)["context"]["first_line"], 1);
    assert_eq!(at(0)["context"]["lines"][1], "  return items.map(price);");
    assert_eq!(
        (&at(1)["line"], &at(1)["function"], &at(1)["function_source"]),
        (&json!(6), &json!("pay"), &json!("scope"))
    );
    assert_eq!(at(2)["status"], "missing_symbol");
    assert_eq!(at(3)["file"], "node_modules/react/index.js");
    assert!(at(3).get("in_app").is_none() && at(3).get("context").is_none());
    assert_eq!((&at(4)["status"], &at(4)["function"]), (&json!("device"), &json!("forEach")));
    assert_eq!(ours["status"], "partial");
    assert_eq!(
        ours["images"][0],
        json!({"debug_id": IDENTITY.debug_id().to_string(), "name": "main.jsbundle", "arch": "javascript", "status": "found"})
    );
    assert_eq!((enriched.frames.total, enriched.frames.symbolicated), (5, 3));
    let grouping = enriched.grouping.unwrap();
    assert_eq!(grouping.title, "TypeError: undefined is not an object #");
    assert_eq!(grouping.culprit.as_deref(), Some("total (cart.ts)"));
    assert!(!grouping.provisional);
    let functions: Vec<_> = grouping.frames.iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!(functions, ["total (cart.ts)", "pay (cart.ts)"]);
}

/// `shop.ts`, whose functions `buy` and `login` a function `dispatch` calls as `handler`, without or with its text.
fn handlers(has_text: bool) -> Value {
    let text = "function buy(o) { return o.price.cents }\nfunction login(u) { return u.session.token }\n\
                function dispatch(handler) { handler({}) }\n";
    let mut map = json!({
        "version": 3, "x_unslide_debug_id": IDENTITY.debug_id().to_string(), "sources": ["src/shop.ts"],
        "names": ["handler"],
        // Line 1: 0 → 1:25, 10 → 2:27, 20 → 3:29 (handler).
        "mappings": "AAAyB,UACE,UACEA",
    });
    if has_text {
        map["sourcesContent"] = json!([text]);
    }
    map
}

fn named(map: &Value, frames: &[Value]) -> (Enrichment, Vec<(String, String, bool)>) {
    let (enriched, ours) = answered(&report("TypeError", frames), Some(&symbols(map)));
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let frames = ours["javascript"]["frames"].as_array().unwrap().iter();
    let said = |frame: &Value| {
        (text(&frame["function"]), text(&frame["function_source"]), frame["approximate"] == true)
    };
    (enriched, frames.map(said).collect())
}

fn said(function: &str, source: &str) -> (String, String, bool) {
    (function.to_owned(), source.to_owned(), source == "caller")
}

#[test]
fn a_guess_replaces_no_name_that_is_known_and_merges_no_bugs() {
    let (buy, login) =
        ([frame("buy", 0), frame("dispatch", 20)], [frame("login", 10), frame("dispatch", 20)]);
    for (has_text, source) in [(false, "device"), (true, "scope")] {
        let map = handlers(has_text);
        let (first, buy) = named(&map, &buy);
        let (second, login) = named(&map, &login);
        assert_eq!((&buy[0], &login[0]), (&said("buy", source), &said("login", source)));
        let (first, second) = (first.grouping.unwrap(), second.grouping.unwrap());
        assert_ne!(first.fingerprint, second.fingerprint);
        assert_eq!(first.culprit.as_deref(), Some("buy (shop.ts)"));
        assert_eq!(second.culprit.as_deref(), Some("login (shop.ts)"));
    }
    // The text of the source goes before a name that a minifier has left.
    let (_, minified) = named(&handlers(true), &[frame("t", 0), frame("e", 20)]);
    assert_eq!(minified, [said("buy", "scope"), said("dispatch", "scope")]);
    // Without it, the guess is better than nothing.
    for device in ["t", "new t", "async e", "e.t", "Object.<anonymous>", "aXe", "handler2", "handler$1"] {
        let (_, minified) = named(&handlers(false), &[frame(device, 0), frame("dispatch", 20)]);
        assert_eq!(minified[0], said("handler", "caller"), "{device}");
    }
}

#[test]
fn a_function_that_its_source_gives_no_name_is_not_guessed() {
    let mut map = handlers(true);
    map["sourcesContent"] =
        json!(["dispatch((o) => { return o.price.cents })\n\nfunction dispatch(handler) { handler({}) }\n"]);
    let (enriched, functions) = named(&map, &[frame("t", 0), frame("e", 20)]);
    assert_eq!(functions, [said("t", "device"), said("dispatch", "scope")]);
    assert_eq!(enriched.grouping.unwrap().culprit.as_deref(), Some("(anonymous) (shop.ts)"));
}

#[test]
fn the_class_that_a_minifier_has_named_does_not_count() {
    let map = handlers(false);
    let fingerprint = |names: [&str; 2]| {
        let (enriched, _) = named(&map, &[frame(names[0], 0), frame(names[1], 20)]);
        let again = grouping::regroup_report(
            &Report::read_stored(&enriched.bytes).unwrap(),
            &GroupingRules::default(),
        )
        .unwrap();
        let grouping = enriched.grouping.unwrap();
        assert_eq!(again.unwrap().fingerprint, grouping.fingerprint, "{names:?}");
        (grouping.fingerprint, grouping.culprit.unwrap())
    };
    let first = fingerprint(["e.step2", "t.run"]);
    assert_eq!(first.1, "step2 (shop.ts)");
    for names in [["t.step2", "s.run"], ["Object.step2", "run"], ["async t.step2", "e.run [as go]"]] {
        assert_eq!(fingerprint(names), first, "{names:?}");
    }
    assert_ne!(fingerprint(["Cart.step2", "t.run"]), first);
}

#[test]
fn a_source_without_a_path_gives_no_file() {
    let mut map = own_map();
    map["sources"][0] = Value::Null;
    map["sourceRoot"] = "/ci".into();
    let (_, ours) = answered(&report("TypeError", &frames()), Some(&symbols(&map)));
    let first = &ours["javascript"]["frames"][0];
    assert_eq!((&first["status"], first.get("file")), (&json!("symbolicated"), None));
    assert_eq!((&first["line"], &first["column"]), (&json!(1), &json!(15)), "the place in the bundle");
    assert_eq!(ours["javascript"]["frames"][3]["file"], "/ci/node_modules/react/index.js");
}

#[test]
fn lines_around_end_where_javascript_ends_a_line() {
    for end in ["\r", "\r\n", "\u{2028}", "\u{2029}"] {
        let mut map = own_map();
        let text = map["sourcesContent"][0].as_str().unwrap().replace('\n', end);
        map["sourcesContent"][0] = text.into();
        let (_, ours) = answered(&report("TypeError", &frames()), Some(&symbols(&map)));
        let first = &ours["javascript"]["frames"][0];
        assert_eq!(first["context"]["lines"][1], "  return items.map(price);", "{end:?}");
        assert_eq!(first["function"], "total", "{end:?}");
    }
}

#[test]
fn a_table_of_another_version_is_not_read() {
    let built = build_symcache(own_map().to_string().as_bytes()).unwrap().symcache;
    let start = built.windows(8).position(|bytes| bytes == b"UNSLDJSM").unwrap();
    let mut table = built[start..].to_vec();
    for (version, is_read) in [(0, false), (1, false), (2, true), (3, false)] {
        table[8] = version;
        assert_eq!(super::SourceMapTable::parse(&table).is_some(), is_read, "{version}");
    }
}

#[test]
fn a_missing_map_is_waited_for_under_the_id_that_an_upload_gives_it() {
    let bytes = report("TypeError", &frames());
    let (enriched, ours) = answered(&bytes, None);
    assert_eq!(enriched.missing, [IDENTITY.debug_id()]);
    assert_eq!(ours["javascript"]["frames"][0]["status"], "missing");
    assert_eq!(
        (&ours["javascript"]["frames"][0]["line"], &ours["javascript"]["frames"][0]["column"]),
        (&json!(1), &json!(15))
    );
    assert!(enriched.grouping.as_ref().unwrap().provisional);
    let needs = crate::list_needs(&Report::read(&bytes, &ReadLimits::default()).unwrap());
    assert_eq!((needs[0].debug_id, needs[0].name.as_str()), (IDENTITY.debug_id(), "main.jsbundle"));
    // The report's own id goes before the name's.
    let own =
        json!({"methodName": "a", "file": "main.jsbundle", "lineNumber": 1, "column": 14, "debugId": ID});
    let (enriched, _) = answered(&report("E", &[own]), Some(&symbols(&map())));
    assert_eq!((enriched.frames.symbolicated, enriched.missing.len()), (1, 0));
    // Symbols of another id, or of machine code, are never used.
    let (enriched, _) = answered(&bytes, Some(&symbols(&map())));
    assert_eq!((enriched.frames.symbolicated, enriched.frames.malformed), (0, 4));
}

#[test]
fn reports_of_one_bug_have_one_group_in_every_build_and_after_it_was_stored() {
    let found = symbols(&own_map());
    let (first, _) = answered(&report("TypeError", &frames()), Some(&found));
    // Another build: other columns in the bundle, other names, the same sources.
    let mut other = own_map();
    other["mappings"] = "KAAA,UACSA,UAIAC,U,UCLT".into();
    let moved = [frame("x", 19), frame("yy", 25), frame("z", 38), frame("dispatch", 52)];
    let (second, _) = answered(&report("TypeError", &moved), Some(&symbols(&other)));
    let fingerprint = |enriched: &Enrichment| enriched.grouping.as_ref().unwrap().fingerprint;
    assert_eq!(fingerprint(&first), fingerprint(&second));
    let (class, _) = answered(&report("RangeError", &frames()), Some(&found));
    assert_ne!(fingerprint(&first), fingerprint(&class));
    let rules = GroupingRules::default();
    for enriched in [&first, &class, &answered(&report("TypeError", &frames()), None).0] {
        let again = grouping::regroup_report(&Report::read_stored(&enriched.bytes).unwrap(), &rules).unwrap();
        assert_eq!(again.as_ref().map(|group| group.fingerprint), Some(fingerprint(enriched)));
    }
}

#[test]
fn a_recursion_is_one_group_whatever_its_depth_and_where_it_stopped() {
    let mut map = own_map();
    map["x_facebook_sources"] = json!([[{"names": ["total", "pay"], "mappings": "AAA;OCI"}], null]);
    let found = symbols(&map);
    let (total, pay) = (|| frame("a", 14), || frame("b", 20));
    let grouped = |name: &str, frames: &[Value]| {
        let mut report: Value = serde_json::from_slice(&report(name, frames)).unwrap();
        report["crash"]["error"]["reason"] = "Maximum call stack size exceeded (native stack depth)".into();
        let enriched = answered(report.to_string().as_bytes(), Some(&found)).0;
        let grouping = enriched.grouping.unwrap();
        let again = grouping::regroup_report(
            &Report::read_stored(&enriched.bytes).unwrap(),
            &GroupingRules::default(),
        );
        assert_eq!(again.unwrap().unwrap().fingerprint, grouping.fingerprint);
        let functions: Vec<_> = grouping.frames.into_iter().map(|frame| frame.function).collect();
        (grouping.fingerprint, functions)
    };
    let turns = |times: usize| (0..times).flat_map(|_| [total(), pay()]).collect::<Vec<_>>();
    let first = grouped("RangeError", &turns(4));
    assert_eq!(first.1, ["pay (cart.ts)", "total (cart.ts)"]);
    assert_eq!(grouped("RangeError", &turns(30)), first);
    assert_eq!(grouped("RangeError", &[vec![pay()], turns(7)].concat()), first);
    // The last turn calls a function that calls no other.
    assert_eq!(grouped("RangeError", &[vec![frame("c", 14)], vec![pay(); 5]].concat()).1, ["pay (cart.ts)"]);
    // Another error keeps the order, and each function counts once.
    let other = grouped("TypeError", &[total(), total(), pay(), total()]);
    assert_eq!(other.1, ["total (cart.ts)", "pay (cart.ts)"]);
    assert_eq!(grouped("TypeError", &[total(), pay()]), other);
}

#[test]
fn function_maps_of_metro_name_the_function_around() {
    let mut map = own_map();
    // Line 1 from column 0: total; line 5 from column 7: pay.
    map["x_facebook_sources"] = json!([[{"names": ["total", "pay"], "mappings": "AAA;OCI"}], null]);
    let (enriched, ours) = answered(&report("TypeError", &frames()), Some(&symbols(&map)));
    let of = |frame: usize| {
        let frame = &ours["javascript"]["frames"][frame];
        (frame["function"].clone(), frame["function_source"].clone(), frame.get("approximate").is_some())
    };
    assert_eq!(of(0), (json!("total"), json!("function_map"), false));
    assert_eq!(of(1), (json!("pay"), json!("function_map"), false));
    let functions: Vec<_> =
        enriched.grouping.unwrap().frames.into_iter().map(|frame| frame.function).collect();
    assert_eq!(functions, ["total (cart.ts)", "pay (cart.ts)"]);
}

#[test]
fn frames_of_bytecode_are_answered_by_its_own_map_alone() {
    let frames = [json!("at a (address at main.jsbundle:1:14)"), json!("b@main.jsbundle:1")];
    let (_, ours) = answered(&report("TypeError", &frames), Some(&symbols(&own_map())));
    let at = |ours: &Value, frame: usize| ours["javascript"]["frames"][frame].clone();
    assert_eq!((&at(&ours, 0)["file"], &at(&ours, 0)["line"]), (&json!("src/cart.ts"), &json!(2)));
    assert_eq!(at(&ours, 1)["status"], "invalid_address", "a line alone says nothing");
    let mut of_bundler = own_map();
    of_bundler["mappings"] = "AAAA,UACSA;AACT".into();
    let (_, ours) = answered(&report("TypeError", &frames), Some(&symbols(&of_bundler)));
    assert_eq!(at(&ours, 0)["status"], "unsupported");
}

#[test]
fn index_maps_prefixes_roots_and_ignore_lists_are_read() {
    let section =
        |line: u32, column: u32, map: Value| json!({"offset": {"line": line, "column": column}, "map": map});
    let one = json!({"version": 3, "sourceRoot": "/ci/", "sources": ["a.ts"], "names": [], "mappings": "AAAA;AACA"});
    let two = json!({"version": 3, "sources": ["b.ts"], "x_google_ignoreList": [0], "mappings": "AAEA;KACA"});
    let index = json!({"version": 3, "debug_id": ID, "sections": [section(0, 0, one), section(1, 100, two)]});
    let text = format!(")]}}'\n{index}");
    assert_eq!(
        list_objects(text.as_bytes()).unwrap()[0].object.as_ref().unwrap().kind,
        ObjectKind::SourceMap
    );
    let built = build_symcache(text.as_bytes()).unwrap();
    let cache = SymCache::parse(built.symcache).unwrap();
    let table = cache.source_map().unwrap();
    let at = |line, column| {
        let place = table.lookup(line, column)?;
        Some((place.file?.decode().into_owned(), place.line, place.is_library))
    };
    assert_eq!(at(0, 7), Some(("/ci/a.ts".to_owned(), 0, false)));
    assert_eq!(at(1, 99), Some(("/ci/a.ts".to_owned(), 1, false)));
    assert_eq!(at(1, 100), Some(("b.ts".to_owned(), 2, true)));
    assert_eq!(at(2, 4), None, "the line's first mapping is at column 5");
    assert_eq!(at(2, 5), Some(("b.ts".to_owned(), 3, true)), "a section's column holds for its first line");
    assert_eq!(at(3, 0), None);
}

#[test]
fn a_section_ends_where_the_next_one_begins() {
    let section =
        |line: u32, column: u32, map: Value| json!({"offset": {"line": line, "column": column}, "map": map});
    // `a.ts` is mapped at 0, 10 and 20 of line 1, and at line 2, which are of `b.ts`.
    let one = json!({"version": 3, "sources": ["a.ts"], "names": [], "mappings": "AAAA,UAAU,UAAU;AACA"});
    let two = json!({"version": 3, "sources": ["b.ts"], "names": [], "mappings": "AAAA;;AACA"});
    for sections in
        [[section(0, 0, one.clone()), section(0, 15, two.clone())], [section(0, 15, two), section(0, 0, one)]]
    {
        let index = json!({"version": 3, "debug_id": ID, "sections": sections});
        let cache = SymCache::parse(build_symcache(index.to_string().as_bytes()).unwrap().symcache).unwrap();
        let table = cache.source_map().unwrap();
        let file = |line, column| Some(table.lookup(line, column)?.file?.decode().into_owned());
        let files = [file(0, 12), file(0, 15), file(0, 25), file(1, 0), file(2, 0)];
        let (a, b) = (|| Some("a.ts".to_owned()), || Some("b.ts".to_owned()));
        assert_eq!(files, [a(), b(), b(), None, b()]);
    }
}

/// The map of a RAM bundle with modules 0 and 2, and with modules 3 and 4 of segment 1. Each line is one of a source.
fn ram_map() -> Value {
    let of = |source: &str, lines: usize| {
        let mappings = format!("AAAA{}", ";AACA".repeat(lines - 1));
        json!({"version": 3, "sources": [source], "names": [], "mappings": mappings})
    };
    let section = |line: u32, map: Value| json!({"offset": {"line": line, "column": 0}, "map": map});
    let segment = json!({"version": 3, "sections": [section(0, of("c.ts", 2)), section(2, of("d.ts", 4))],
        "x_facebook_offsets": [null, null, null, 0, 2]});
    json!({"version": 3, "x_unslide_debug_id": IDENTITY.debug_id().to_string(),
        "sections": [section(0, of("startup.js", 2)), section(2, of("a.ts", 3)), section(5, of("b.ts", 2))],
        "x_facebook_offsets": [2, null, 5], "x_facebook_segments": {"1": segment}})
}

/// As metro-symbolicate 0.84.6 answers, but for lines that the module has not.
#[test]
fn modules_of_ram_bundles_are_found_by_their_first_lines() {
    let place =
        |file: &str, line: u32| json!({"methodName": "f", "file": file, "lineNumber": line, "column": 4});
    let symbolicated = [
        (place("0.js", 2), "a.ts", 2),
        (place("2.js", 1), "b.ts", 1),
        (place("2.js", 2), "b.ts", 2),
        (place("seg-1_3.js", 2), "c.ts", 2),
        (place("seg-1_4.js", 4), "d.ts", 4),
        (place("seg-1.js", 3), "d.ts", 1),
        (place("app:///main.jsbundle", 2), "startup.js", 2),
    ];
    let not = [
        (place("0.js", 4), "missing_symbol"),
        (place("2.js", 3), "missing_symbol"),
        (place("main.jsbundle", 8), "missing_symbol"),
        (place("1.js", 1), "unsupported"),
        (place("seg-2.js", 1), "unsupported"),
    ];
    let frames: Vec<Value> =
        symbolicated.iter().map(|known| &known.0).chain(not.iter().map(|known| &known.0)).cloned().collect();
    let bytes = report("TypeError", &frames);
    let (enriched, ours) = answered(&bytes, Some(&symbols(&ram_map())));
    let said = &ours["javascript"]["frames"];
    for (at, (_, file, line)) in symbolicated.iter().enumerate() {
        assert_eq!((&said[at]["file"], &said[at]["line"]), (&json!(file), &json!(line)), "{}", frames[at]);
    }
    for (at, (_, status)) in (symbolicated.len()..).zip(&not) {
        assert_eq!(said[at]["status"], *status, "{}", frames[at]);
    }
    assert_eq!(said[3]["bundle"], "seg-1_3.js");
    assert_eq!(ours["images"].as_array().unwrap().len(), 1);
    // Without it, one map is waited for.
    let (waiting, _) = answered(&bytes, None);
    assert_eq!((waiting.missing, enriched.missing), (vec![IDENTITY.debug_id()], vec![]));
    // A map of a bundle without modules knows none of them.
    let (_, ours) = answered(&bytes, Some(&symbols(&own_map())));
    assert_eq!(ours["javascript"]["frames"][0]["status"], "unsupported");
}

#[test]
fn wrappers_of_modules_that_metro_counts_twice_count_once() {
    let mut map = ram_map();
    map["sections"][1]["offset"]["column"] = 28.into();
    let frames = [json!("at f (0.js:1:5)"), json!("at g (0.js:2:5)")];
    let files = |map: &Value| {
        let (_, ours) = answered(&report("TypeError", &frames), Some(&symbols(map)));
        [0_usize, 1].map(|at| ours["javascript"]["frames"][at]["file"].clone())
    };
    assert_eq!(files(&map), [Value::Null, json!("a.ts")], "another bundler means the column");
    map["x_metro_module_paths"] = json!(["a.ts", null, "b.ts"]);
    assert_eq!(files(&map), [json!("a.ts"), json!("a.ts")]);
}

#[test]
fn a_segment_of_bytecode_is_answered_by_its_own_map() {
    let mut map = own_map();
    map["x_facebook_segments"] =
        json!({"3": {"version": 3, "sources": ["late.ts"], "names": [], "mappings": "AAAA,UACA"}});
    let frames = [json!("at a (address at seg-3.js:1:14)"), json!("at b (address at main.jsbundle:1:14)")];
    let (_, ours) = answered(&report("TypeError", &frames), Some(&symbols(&map)));
    let at = |frame: usize| ours["javascript"]["frames"][frame].clone();
    assert_eq!((&at(0)["file"], &at(0)["line"]), (&json!("late.ts"), &json!(2)));
    assert_eq!((&at(1)["file"], &at(1)["line"]), (&json!("src/cart.ts"), &json!(2)));
}

#[test]
fn a_ram_bundle_itself_is_refused_with_what_to_upload() {
    let error = list_objects(&[0xE5, 0xD1, 0x0B, 0xFB, 1, 0, 0, 0]).unwrap_err().to_string();
    assert!(error.contains("upload its source map"), "{error}");
}

#[test]
fn a_section_in_another_file_is_refused_with_what_to_upload() {
    let section = json!({"offset": {"line": 0, "column": 0}, "url": "shop\n.map"});
    let index = json!({"version": 3, "debug_id": ID, "sections": [section]});
    let error = build_symcache(index.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains("\"shop.map\": upload an index map with that file's content"), "{error}");
}

#[test]
fn a_section_without_a_map_is_malformed() {
    let section = json!({"offset": {"line": 0, "column": 0}});
    let index = json!({"version": 3, "debug_id": ID, "sections": [section]});
    let error = build_symcache(index.to_string().as_bytes()).unwrap_err();
    assert!(matches!(error, ObjectError::Malformed(_)), "{error}");
}

#[test]
fn what_is_no_sound_map_is_refused() {
    let with = |key: &str, value: Value| {
        let mut map = map();
        map[key] = value;
        build_symcache(map.to_string().as_bytes())
    };
    for mappings in ["A", "AA", "AAA", "!AAA", "g", "AADA", "AEAA", "AAAAE", "DAAA", "gggggggggB", "AAAAAA"] {
        let result = with("mappings", mappings.into());
        assert_eq!(result.is_ok(), mappings == "A", "{mappings}");
    }
    assert!(matches!(with("version", 2.into()), Err(ObjectError::Unsupported(_))));
    assert!(matches!(with("debugId", "shop".into()), Err(ObjectError::Malformed(_))));
    assert!(matches!(build_symcache(b"{}"), Err(ObjectError::NotAnObject)));
    assert!(matches!(list_objects(b"{\"report\":{}}"), Err(ObjectError::NotAnObject)));
    let mut none = map();
    none.as_object_mut().unwrap().remove("debugId");
    let entry = list_objects(none.to_string().as_bytes()).unwrap().remove(0);
    assert_eq!(entry.object.unwrap().debug_id, None);
    let deep = format!(
        "{}{}",
        r#"{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":"#.repeat(5_000),
        "}"
    );
    assert!(build_symcache(deep.as_bytes()).is_err());
}

/// A damaged table answers nothing wrong and ends.
#[test]
fn damaged_tables_end() {
    let mut map = own_map();
    map["x_facebook_offsets"] = json!([0, 0]);
    let built = build_symcache(map.to_string().as_bytes()).unwrap();
    for at in 96..built.symcache.len() {
        for byte in [0, 1, 0x7F, 0xFF] {
            let mut bytes = built.symcache.clone();
            bytes[at] = byte;
            let Ok(cache) = SymCache::parse(bytes) else { continue };
            let found = ImageSymbols::from_symcache(Arc::new(cache));
            assert_eq!(answered_loosely(&found).frames.total, 5);
        }
    }
}

fn answered_loosely(found: &ImageSymbols) -> Enrichment {
    let bytes = report("TypeError", &frames());
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    enrich(&report, &|_| Some(found), &Context::default())
}

#[test]
fn less_is_said_where_there_is_no_room() {
    let found = symbols(&own_map());
    let many: Vec<Value> = (0..400).map(|at| frame(&"f".repeat(400), at % 30)).collect();
    let bytes = report("TypeError", &many);
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    for most in [None, Some(bytes.len() + 60_000), Some(0)] {
        let context = Context { most_bytes: most, ..Context::default() };
        let enriched = enrich(&report, &|_| Some(&found), &context);
        assert_eq!(enriched.frames.symbolicated, 256);
        assert_eq!(enriched.cut, most.is_some());
        let least = bytes.len() + 40_000;
        assert!(
            enriched.bytes.len() <= crate::most_bytes(bytes.len())
                && (most != Some(0) || enriched.bytes.len() < least)
        );
    }
    let functions =
        enrich(&report, &|_| Some(&found), &Context { detail: Detail::FunctionsOnly, ..Context::default() });
    assert!(!String::from_utf8(functions.bytes).unwrap().contains("first_line"));
}

#[test]
fn rules_of_the_tenant_hold_for_functions_of_javascript() {
    let rules = GroupingRules::parse("ignore function total\n").unwrap();
    let bytes = report("TypeError", &frames());
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let found = symbols(&own_map());
    let context = Context { rules: Some(&rules), ..Context::default() };
    let enriched = enrich(&report, &|_| Some(&found), &context);
    let functions: Vec<_> = enriched.grouping.unwrap().frames.into_iter().map(|frame| frame.frame).collect();
    assert_eq!(functions, [1]);
    let explained = explain_report(&report, &|_| Some(&found), &rules, &[]);
    let counted: Vec<bool> = explained.javascript.iter().map(|frame| frame.counted).collect();
    assert_eq!(counted, [false, true, false, false, false]);
}

#[test]
fn a_missing_map_is_explained_with_the_command_that_sends_it() {
    let bytes = report("TypeError", &frames());
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let explained = explain_report(&report, &|_| None, &GroupingRules::default(), &[]);
    let expected = format!(
        "no source map is known for main.jsbundle (debug id {}); upload it: unslide upload --source-map MAP \
         --app com.example.shop --platform ios --app-version 1.2 --build 7 --bundle main.jsbundle",
        IDENTITY.debug_id()
    );
    assert_eq!(explained.javascript[0].reason, expected);
    assert_eq!(explained.javascript[4].reason, "it is a function of the engine");
}

#[test]
fn a_map_takes_the_debug_id_of_its_app_and_stays_as_it_was_otherwise() {
    let map = map().to_string();
    let named = with_debug_id(format!(")]}}'\n{map}").as_bytes(), IDENTITY.debug_id()).unwrap();
    let entry = list_objects(&named).unwrap().remove(0);
    assert_eq!(entry.object.unwrap().debug_id, Some(IDENTITY.debug_id()));
    let (own, other) = (build_symcache(map.as_bytes()).unwrap(), build_symcache(&named).unwrap());
    assert_eq!((own.debug_id, own.symcache[32..] == other.symcache[32..]), (ID.parse().unwrap(), true));
    assert_eq!(build_source_map(map.as_bytes(), IDENTITY.debug_id()).unwrap().symcache, other.symcache);
    assert!(with_debug_id(b"[]", IDENTITY.debug_id()).is_none());
}
