//! `unslide symbolicate` and `unslide explain` with files of every kind.

use crate::api::Api;
use crate::commands::unslide;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use unslide_model::DebugId;
use unslide_testkit::{fixtures, macho};

/// The debug id of a fixture's dSYM.
pub fn debug_id(dsym: &Path) -> DebugId {
    let bytes = std::fs::read(dsym).unwrap();
    let objects = unslide_symbolicate::object::list_objects(&bytes).unwrap();
    objects[0].object.as_ref().unwrap().debug_id.unwrap()
}

/// A crash of the app and of a system library; no symbols are known of the latter.
pub fn report() -> Value {
    report_of(debug_id(&fixtures::dsym("app")))
}

/// The same with an app of this debug id.
fn report_of(app: DebugId) -> Value {
    let image = |name: &str, id: String, start: u64| {
        json!({"name": name, "uuid": id, "image_addr": start, "image_size": 1_048_576, "image_vmaddr": start,
               "cpu_type": 16_777_228, "cpu_subtype": 0})
    };
    let (own, system) = (4_294_967_296_u64, 8_589_934_592_u64);
    let frame = |start: u64, offset: u64| json!({"object_addr": start, "instruction_addr": start + offset});
    json!({
        "report": {"id": "5F9E6C1C-6E24-4C36-8F0E-9A3E3C0D6E10", "version": "3.3.0", "type": "standard"},
        "system": {"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.2.3",
                   "CFBundleVersion": "45", "cpu_arch": "arm64"},
        "crash": {"error": {"type": "signal"}, "threads": [
            {"index": 0, "crashed": true, "backtrace": {"contents": [frame(own, 64), frame(system, 64)], "skipped": 0}}]},
        "binary_images": [
            image("/private/var/containers/Bundle/Application/1/Shop.app/Shop", app.to_string(), own),
            image("/usr/lib/libobjc.A.dylib", "0B1C2D3E-4F50-6172-8394-A5B6C7D8E9F0".to_owned(), system),
        ],
    })
}

pub fn written(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs a command: exit code, standard output, standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let done = unslide(arguments, &[]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn symbols_come_from_archives_and_input_may_be_packed() {
    let folder = tempfile::tempdir().unwrap();
    let plain = written(&folder, "report.json", report().to_string().as_bytes());
    fixtures::run(Command::new("gzip").arg("--keep").arg(&plain));
    let gzip = format!("{plain}.gz");
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::copy(fixtures::dsym("app"), inside.join("app")).unwrap();
    let tar = folder.path().join("dsyms.tar.gz");
    fixtures::run(Command::new("tar").arg("-czf").arg(&tar).arg("-C").arg(&inside).arg("."));
    let zip = folder.path().join("dsyms.zip");
    fixtures::run(Command::new("python3").args(["-m", "zipfile", "-c"]).arg(&zip).arg(inside.join("app")));
    let found = |symbols: PathBuf, report: &str| {
        let arguments = ["symbolicate", "--require-symbols", "--symbols", symbols.to_str().unwrap(), report];
        let (code, output, error) = run(&arguments);
        assert_eq!(code, Some(0), "{error}");
        let enriched: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(enriched["symbolication"]["images"][0]["status"], "found", "{output}");
        assert!(error.contains("images of the operating system") && !error.contains("of the app"), "{error}");
    };
    found(fixtures::dsym("app"), &plain);
    found(tar, &gzip);
    found(zip, &gzip);
}

/// Proves: bounded-input
#[test]
fn a_dsym_that_needs_more_memory_than_its_build_may_have_costs_the_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let large = written(&folder, "large", &macho::many_functions());
    let reports = [report_of(debug_id(Path::new(&large))), report()].map(|report| format!("{report}\n"));
    let file = written(&folder, "reports.ndjson", reports.concat().as_bytes());
    let app = fixtures::dsym("app");
    let symbols =
        ["symbolicate", "--require-symbols", "--symbols", &large, "--symbols", app.to_str().unwrap()];
    let (code, output, error) = run(&[&symbols[..], &["--build-memory", "64MiB", &file]].concat());
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains(&format!("{large}: it needs more than 67108864 bytes of memory")), "{error}");
    assert!(
        error.contains("--build-memory") && error.contains("1 frame of the app lacks symbols"),
        "{error}"
    );
    let statuses = |output: &str| {
        let answers = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        answers.map(|answer| answer["symbolication"]["images"][0]["status"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(statuses(&output), ["unsupported", "found"]);
    // With the memory it is built, and names nothing, as a stripped binary does.
    let (code, output, error) = run(&[&symbols[..], &[&file]].concat());
    assert_eq!((code, statuses(&output)), (Some(3), vec![json!("found"); 2]), "{error}");
}

#[test]
fn a_build_without_a_temporary_folder_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "report.json", report().to_string().as_bytes());
    let (app, gone) = (fixtures::dsym("app"), folder.path().join("gone"));
    let arguments = ["symbolicate", "--require-symbols", "--symbols", app.to_str().unwrap(), &file];
    let done = unslide(&arguments, &[("TMPDIR", gone.to_str().unwrap())]);
    let error = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(3), "{error}");
    assert!(error.contains(&format!("(temporary files are in {})", gone.display())), "{error}");
}

#[test]
fn what_lacks_symbols_is_named_with_its_uuid_and_can_be_required() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "reports.ndjson", format!("{0}\n{0}\n", report()).as_bytes());
    let (code, output, error) = run(&["symbolicate", &file]);
    assert_eq!((code, output.lines().count()), (Some(0), 2), "{error}");
    let id = debug_id(&fixtures::dsym("app"));
    assert!(error.contains("2 frames of the app lack symbols"), "{error}");
    assert!(error.contains(&format!("Shop {id}: 2 frames (missing)")), "{error}");
    assert_eq!(run(&["symbolicate", "--require-symbols", &file]).0, Some(3));
    // A stripped binary has the dSYM's UUID and next to none of its names.
    let stripped = fixtures::binary("app-stripped");
    let symbols = ["symbolicate", "--require-symbols", "--symbols", stripped.to_str().unwrap(), &file];
    let (code, output, error) = run(&symbols);
    assert_eq!(code, Some(3), "{error}");
    assert!(output.contains(r#""status":"found""#), "{output}");
    assert!(error.contains(&format!("Shop {id}: 2 frames (stripped)")), "{error}");
}

#[test]
fn members_of_a_wrong_type_are_named_and_end_a_run_that_requires_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let app = fixtures::dsym("app");
    let text = |value: &Value| json!(format!("{:#x}", value.as_u64().unwrap()));
    type Change = Box<dyn Fn(&mut Value)>;
    let frames = "/crash/threads/0/backtrace/contents";
    let changes: [(Change, &str); 4] = [
        (
            Box::new(move |report: &mut Value| {
                let address = report.pointer_mut(&format!("{frames}/0/instruction_addr")).unwrap();
                *address = text(address);
            }),
            "backtrace.contents[].instruction_addr is a text, not a number, in 1 report",
        ),
        (
            Box::new(move |report: &mut Value| {
                for image in report["binary_images"].as_array_mut().unwrap() {
                    image["image_addr"] = text(&image["image_addr"]);
                }
            }),
            "binary_images[].image_addr is a text, not a number",
        ),
        (
            Box::new(move |report: &mut Value| *report.pointer_mut(frames).unwrap() = json!({"0": {}})),
            "backtrace.contents is an object, not an array of objects",
        ),
        (
            Box::new(move |report: &mut Value| report["crash"]["threads"] = json!("none")),
            "crash.threads is a text, not an array of objects",
        ),
    ];
    for (change, named) in changes {
        let mut report = report();
        change(&mut report);
        let file = written(&folder, "report.json", report.to_string().as_bytes());
        let arguments = ["symbolicate", "--symbols", app.to_str().unwrap(), &file];
        let (code, _, error) = run(&arguments);
        assert!(code == Some(0) && error.contains(named), "{named}: {error}");
        assert_eq!(run(&[&arguments[..], &["--require-symbols"]].concat()).0, Some(3), "{named}");
    }
}

#[test]
fn the_dsym_of_another_build_is_named_as_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "report.json", report().to_string().as_bytes());
    let other = fixtures::dsym("app-next");
    let (code, _, error) = run(&["symbolicate", "--symbols", other.to_str().unwrap(), &file]);
    let id = debug_id(&other);
    let line = format!("{} has the UUID {id}, of another build: it was not used", other.display());
    assert!(code == Some(0) && error.contains(&line), "{error}");
}

#[test]
fn several_files_are_answered_one_after_the_other_and_problems_name_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let one = written(&folder, "one.json", report().to_string().as_bytes());
    let bad = written(&folder, "bad.json", b"{\n\"crash\":\n");
    let array = written(&folder, "array.json", format!("[{0},{0}]", report()).as_bytes());
    let (code, output, error) = run(&["symbolicate", &one, &bad, &array]);
    assert_eq!(code, Some(1), "{error}");
    assert_eq!(output.matches("\"symbolication\":{\"version\":1,").count(), 3, "{output}");
    assert_eq!(output.lines().count(), 4, "each file begins a line: {output}");
    assert!(error.contains("bad.json: ") && !error.contains("one.json: "), "{error}");
    let (code, output, error) = run(&["symbolicate", &one, "no/such/file.json"]);
    assert!(code == Some(2) && output.is_empty() && error.contains("no/such/file.json"), "{error}");
}

#[test]
fn a_log_in_apples_form_is_called_that_once() {
    let folder = tempfile::tempdir().unwrap();
    let ips = "{\"app_name\":\"Shop\",\"bug_type\":\"309\"}\n{\n  \"procName\": \"Shop\",\n  \"usedImages\": []\n}\n";
    let crash = "Incident Identifier: 5A9E\nHardware Model: iPhone15,2\nProcess: Shop [1]\n";
    for (log, problem) in [(ips, "without `threads`"), (crash, "without a backtrace")] {
        let file = written(&folder, "log", log.as_bytes());
        let (code, output, error) = run(&["symbolicate", &file]);
        assert_eq!((code, output.as_str(), error.lines().count()), (Some(1), log, 1), "{error}");
        assert!(error.contains("is an Apple ") && error.contains(problem), "{error}");
        let (code, _, error) = run(&["explain", &file]);
        assert!(code == Some(1) && error.contains(problem), "{error}");
    }
}

/// The crash of [`report`] as Apple writes it.
fn apple_log() -> String {
    let image = |name: &str, id: String, start: u64| {
        json!({"source": "P", "arch": "arm64", "base": start, "size": 1_048_576, "uuid": id, "path": name,
               "name": name.rsplit('/').next()})
    };
    let header = json!({"app_name": "Shop", "bug_type": "309", "bundleID": "com.example.shop", "app_version": "1.2.3",
        "build_version": "45", "os_version": "iPhone OS 18.3.1 (22D72)",
        "incident_id": "5F9E6C1C-6E24-4C36-8F0E-9A3E3C0D6E10"});
    let body = json!({
        "procName": "Shop", "pid": 7, "cpuType": "ARM-64", "faultingThread": 0,
        "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV", "rawCodes": [1, 8]},
        "threads": [{"id": 1, "triggered": true,
                     "frames": [{"imageIndex": 0, "imageOffset": 64}, {"imageIndex": 1, "imageOffset": 64}]}],
        "usedImages": [
            image("/private/var/containers/Bundle/Application/1/Shop.app/Shop",
                  debug_id(&fixtures::dsym("app")).to_string(), 4_294_967_296),
            image("/usr/lib/libobjc.A.dylib", "0B1C2D3E-4F50-6172-8394-A5B6C7D8E9F0".to_owned(), 8_589_934_592)]});
    format!("{header}\n{}\n", serde_json::to_string_pretty(&body).unwrap())
}

#[test]
fn a_crash_log_of_apple_is_answered_in_its_own_form_as_text_and_as_facts() {
    let folder = tempfile::tempdir().unwrap();
    let log = apple_log();
    let file = written(&folder, "Shop.ips", log.as_bytes());
    let dsym = fixtures::dsym("app");
    let (code, output, error) = run(&["symbolicate", "--dsym", dsym.to_str().unwrap(), &file]);
    assert_eq!(code, Some(0), "{error}");
    let header = log.lines().next().unwrap();
    assert!(output.starts_with(header) && output.contains("\"symbolication\""), "{output}");
    let body: Value = serde_json::from_str(output.split_once('\n').unwrap().1).unwrap();
    let frames = &body["threads"][0]["frames"];
    assert_eq!(frames[1]["symbolication"]["status"], "missing", "{frames}");
    assert_ne!(frames[0]["symbolication"]["status"], "missing", "{frames}");
    let (code, text, error) = run(&["symbolicate", "--format", "text", &file]);
    assert!(code == Some(0) && text.contains("Triggered by Thread:  0"), "{text}{error}");
    assert!(error.contains("lacks symbols") && error.contains("Shop"), "{error}");
    let (code, facts, error) = run(&["symbolicate", "--format", "facts", &file]);
    assert_eq!(code, Some(0), "{error}");
    let facts: Value = serde_json::from_str(&facts).unwrap();
    assert_eq!(facts["id"], "5f9e6c1c-6e24-4c36-8f0e-9a3e3c0d6e10");
    assert_eq!(
        (&facts["app"], &facts["pid"], &facts["os_build"]),
        (&json!("com.example.shop"), &json!(7), &json!("22D72"))
    );
    assert_eq!((&facts["crashed_thread"], &facts["threads"]), (&json!(0), &json!(1)));
    assert_eq!((&facts["exception_code"], &facts["address"]), (&json!(1), &json!(8)));
    assert_eq!((&facts["frame_0_exact"], &facts["frames"][1]["lookup"]), (&json!(true), &json!(63)));
    // Both texts on one line each are one log, and reports a line stay reports.
    let compact = format!("{header}\n{body}\n");
    let file = written(&folder, "compact.ips", compact.as_bytes());
    let (code, again, error) = run(&["symbolicate", "--format", "facts", &file]);
    assert_eq!(
        (code, serde_json::from_str::<Value>(&again).unwrap()["id"].clone()),
        (Some(0), facts["id"].clone()),
        "{error}"
    );
    let lines = written(&folder, "lines.json", format!("{}\n{}\n", report(), body).as_bytes());
    let (code, output, error) = run(&["symbolicate", "--format", "facts", &lines]);
    assert_eq!((code, output.lines().count()), (Some(0), 2), "{error}");
    let refused = written(&folder, "bad.json", b"{\"a\":1}");
    let (code, output, _) = run(&["symbolicate", "--format", "facts", &refused]);
    assert!(code == Some(1) && output.starts_with("{\"refused\":\"not_a_report: "), "{output}");
}

#[test]
fn the_facts_of_reports_of_ios_27_are_printed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
    let facts = |name: &str| {
        let (code, output, error) = run(&["symbolicate", "--format", "facts", &format!("{folder}/{name}")]);
        assert!(code.is_some(), "{error}");
        serde_json::from_str::<Value>(&output).unwrap()
    };
    let crash = facts("log/diagnostic-report");
    for (key, expected) in [
        ("app", json!("org.example.lantern")),
        ("version", json!("3.1")),
        ("build", json!("412")),
        ("pid", json!(731)),
        ("device", json!("iPhone16,1")),
        ("os", json!("iOS")),
        ("os_version", json!("27.0")),
        ("os_build", json!("24A435")),
        ("kind", json!("crash")),
        ("exception", json!("EXC_BREAKPOINT")),
        ("signal", json!("SIGTRAP")),
        ("exception_code", json!(1)),
        ("crashed_thread", json!(0)),
        ("threads", json!(2)),
        ("frame_0_exact", json!(true)),
    ] {
        assert_eq!(crash[key], expected, "{key}");
    }
    assert_eq!(
        (&crash["frames"][0]["offset"], &crash["frames"][1]["offset"]),
        (&json!(243_108), &json!(19_480))
    );
    let hang = facts("log/diagnostic-report-hang");
    assert_eq!((&hang["kind"], &hang["duration_ns"]), (&json!("hang"), &json!(2_750_000_000_u64)));
    assert_eq!((&hang["samples"], &hang["os"]), (&json!(13), &json!("macOS")));
    let metric = facts("metrics/metric-report");
    assert!(metric["refused"].as_str().unwrap().contains("MetricReport"), "{metric}");
}

#[test]
fn elements_that_are_no_reports_are_named_and_cost_the_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "array.json", format!("[3,{},\"text\"]", report()).as_bytes());
    let (code, output, error) = run(&["symbolicate", &file]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("element 1 of the array") && error.contains("element 3 of the array"), "{error}");
    let answered: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(answered[1]["symbolication"]["images"].as_array().map(Vec::len), Some(2), "{output}");
}

/// What has to be said of the app's frame without its dSYM.
fn names_the_dsym(said: &str) {
    let id = debug_id(&fixtures::dsym("app"));
    let advice = format!(
        "no symbols are known for Shop (UUID {id}); upload its dSYM of com.example.shop 1.2.3 build 45: unslide upload \
         Shop.app.dSYM"
    );
    assert!(said.contains(&advice), "{said}");
}

#[test]
fn an_explanation_names_the_dsym_to_upload_and_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "report.json", report().to_string().as_bytes());
    let (code, output, error) = run(&["explain", &file]);
    assert_eq!(code, Some(0), "{error}");
    names_the_dsym(&output);
    assert!(
        output.contains("libobjc.A.dylib") && output.contains("unslide system-symbols import"),
        "{output}"
    );
    let (code, json, _) = run(&["explain", "--json", &file]);
    assert_eq!(code, Some(0));
    // The API answers with the same explanation.
    let api = Api::start(move |line| {
        assert_eq!(line, "GET /v1/reports/5f9e6c1c-0000-4000-8000-000000000001/explain");
        (200, json.clone())
    });
    let arguments = [
        "explain",
        "--url",
        &api.url,
        "--api-key",
        "x",
        "--frame",
        "0",
        "5f9e6c1c-0000-4000-8000-000000000001",
    ];
    let (code, output, error) = run(&arguments);
    assert_eq!(code, Some(0), "{error}");
    names_the_dsym(&output);
    assert!(output.contains("rule") && !output.contains("libobjc"), "{output}");
    for (wrong, code) in [(&["--frame", "9"][..], 3), (&["--thread", "7"], 3), (&["--frame", "x"], 2)] {
        assert_eq!(run(&[&["explain"], wrong, &[&file]].concat()).0, Some(code), "{wrong:?}");
    }
    assert_eq!(run(&["explain", "no/such/file.json"]).0, Some(2));
}

#[test]
fn an_explanation_with_symbols_shows_what_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "report.json", report().to_string().as_bytes());
    let symbols = fixtures::dsym("app");
    let arguments = ["explain", "--symbols", symbols.to_str().unwrap(), "--frame", "0", &file];
    let (code, output, error) = run(&arguments);
    assert_eq!(code, Some(0), "{error}");
    assert!(output.contains("found") && !output.contains("no symbols are known"), "{output}");
}

/// A report of an error of JavaScript, whose frames are in the first line of `main.jsbundle`.
fn javascript_report() -> Value {
    let frame = |name: &str, column: u32| json!({"methodName": name, "file": "app:///main.jsbundle", "lineNumber": 1, "column": column});
    let user = json!({"name": "TypeError", "language": "react-native", "backtrace": [frame("a", 14), frame("b", 20)]});
    json!({
        "system": {"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.2", "system_name": "iOS"},
        "crash": {"error": {"type": "user", "reason": "undefined is not an object", "user_reported": user}},
    })
}

#[test]
fn source_maps_of_a_folder_answer_by_the_name_of_their_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let report = written(&folder, "report.json", javascript_report().to_string().as_bytes());
    let maps = folder.path().join("maps");
    std::fs::create_dir(&maps).unwrap();
    let map =
        json!({"version": 3, "sources": ["src/cart.ts"], "names": ["total"], "mappings": "AAAA,UACS,UAIAA"});
    std::fs::write(maps.join("main.jsbundle.map"), map.to_string()).unwrap();
    let symbols = ["--symbols", maps.to_str().unwrap(), &report];
    let (code, output, error) = run(&[&["symbolicate", "--require-symbols"], &symbols[..]].concat());
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let enriched: Value = serde_json::from_str(&output).unwrap();
    let frame = &enriched["symbolication"]["javascript"]["frames"][0];
    assert_eq!(
        (&frame["file"], &frame["line"], &frame["function"]),
        (&json!("src/cart.ts"), &json!(2), &json!("total"))
    );
    let (code, output, error) = run(&[&["explain"], &symbols[..]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(output.contains("total in src/cart.ts:2 [symbolicated]"), "{output}");
    // Two maps of one name: none is used, and the message says which there are.
    std::fs::create_dir(maps.join("android")).unwrap();
    std::fs::copy(maps.join("main.jsbundle.map"), maps.join("android/main.jsbundle.map")).unwrap();
    let (code, _, error) = run(&[&["symbolicate", "--require-symbols"], &symbols[..]].concat());
    assert_eq!(code, Some(3), "{error}");
    let note = format!(
        "2 source maps have the name of the bundle \"main.jsbundle\", and none of them is used: {0}/android/main.jsbundle.map, \
         {0}/main.jsbundle.map. Give the one that is meant, as --symbols FILE, or maps with a debug id",
        maps.display()
    );
    assert!(error.contains(&note), "{error}");
    let (_, output, error) = run(&[&["explain"], &symbols[..]].concat());
    assert!(error.contains(&note), "{error}");
    assert!(
        output.contains("--app com.example.shop --platform ios --app-version 1.2 --build ''"),
        "{output}"
    );
}
