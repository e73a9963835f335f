//! Published crash logs as text and published payloads of MetricKit, where they lie beside the repository.

use crate::{enriched, places, readers, report, stripped, translate};
use serde_json::json;
use std::path::Path;
use unslide_report::{ReadLimits, Report};
use unslide_testkit::fixtures;

/// Facts of a published text.
struct TextFacts {
    name: &'static str,
    app: &'static str,
    version: [&'static str; 2],
    exception: [&'static str; 2],
    crashed: Option<u64>,
    threads: usize,
    images: usize,
}

const TEXTS: [TextFacts; 5] = [
    TextFacts {
        name: "acrp-bruno.txt",
        app: "com.YourCompany.YetAnotherMac",
        version: ["4.21.1", ""],
        exception: ["", "SIGSEGV"],
        crashed: Some(5),
        threads: 0,
        images: 0,
    },
    TextFacts {
        name: "acrp-handcrafted.txt",
        app: "com.YourCompany.YetAnotherMac",
        version: ["4.21.1", ""],
        exception: ["", "SIGSEGV"],
        crashed: Some(1),
        threads: 2,
        images: 5,
    },
    TextFacts {
        name: "idb-app_default_set.crash",
        app: "TableSearch",
        version: ["1.3", ""],
        exception: ["EXC_CRASH", "SIGABRT"],
        crashed: Some(0),
        threads: 0,
        images: 0,
    },
    TextFacts {
        name: "idb-assetsd_custom_set.crash",
        app: "assetsd",
        version: ["", ""],
        exception: ["EXC_CRASH", "SIGABRT"],
        crashed: Some(5),
        threads: 0,
        images: 0,
    },
    TextFacts {
        name: "sym-ios10-header-and-text.ips",
        app: "im.zorro.demo",
        version: ["3.5.5", "3.5.5.2"],
        exception: ["EXC_BREAKPOINT", "SIGTRAP"],
        crashed: Some(0),
        threads: 0,
        images: 0,
    },
];

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Proves: unchanged-bytes
#[test]
fn published_texts_have_their_facts_and_come_back_unchanged() {
    let test = "published crash logs as text have their facts";
    let Some(mut samples) = fixtures::published(test, "apple/crash-text", "", 9) else { return };
    samples.extend(fixtures::published(test, "apple/xccrashpoint", ".crash", 2).unwrap_or_default());
    for path in samples {
        let name = file_name(&path);
        let log = std::fs::read(&path).unwrap();
        if matches!(name.as_str(), "acrp-xcode16.txt" | "sym-umeng.crash" | "acrp-spaces.txt") {
            let refused = translate(&log).map(|_| ());
            assert!(name == "acrp-spaces.txt" || refused.is_err(), "{name}");
            continue;
        }
        let (result, written) = enriched(&log);
        assert!(result.frames.total > 10, "{name}");
        assert_eq!(stripped(&written), log, "{name}");
        let report = report(&log);
        let text = String::from_utf8_lossy(&log).into_owned();
        let heads = text.lines().filter(|line| is_thread_head(line.trim())).count();
        let threads = report["crash"]["threads"].as_array().unwrap();
        assert_eq!(threads.len(), heads, "{name}");
        let images = text
            .lines()
            .filter(|line| line.trim().starts_with("0x") && line.contains(" - ") && line.contains('<'));
        // An image that only frames name has no end.
        let read = report["binary_images"].as_array().unwrap().iter();
        let listed = read.filter(|image| image["image_size"].as_u64().is_some_and(|size| size > 0));
        assert_eq!(listed.count(), images.count(), "{name}");
        let Some(facts) = TEXTS.iter().find(|facts| facts.name == name) else { continue };
        let system = &report["system"];
        let string = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        assert_eq!(system["CFBundleIdentifier"], facts.app, "{name}");
        if !facts.version[0].is_empty() {
            let version = [&system["CFBundleShortVersionString"], &system["CFBundleVersion"]].map(string);
            assert_eq!(version, facts.version, "{name}");
        }
        let error = &report["crash"]["error"];
        let exception = [&error["mach"]["exception_name"], &error["signal"]["name"]].map(string);
        assert_eq!(exception, facts.exception, "{name}");
        let crashed = threads.iter().find(|thread| thread["crashed"] == json!(true));
        assert_eq!(crashed.and_then(|thread| thread["index"].as_u64()), facts.crashed, "{name}");
        assert!(facts.threads == 0 || facts.threads == threads.len() && facts.images <= 5, "{name}");
    }
}

/// Returns true for the head of a thread, of which there is one for each.
fn is_thread_head(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("Thread ") else { return false };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(':') || rest.starts_with(" Crashed:")
}

#[test]
fn a_log_of_test_flight_joins_its_inlined_calls() {
    let test = "a published log of TestFlight has its frames";
    let Some(samples) = fixtures::published(test, "apple/xccrashpoint", ".crash", 2) else { return };
    let log = std::fs::read(&samples[0]).unwrap();
    let read = report(&log);
    assert_eq!(read["system"]["CFBundleShortVersionString"], "0.8.57");
    assert_eq!(read["system"]["CFBundleVersion"], "202604081349");
    let exception = read["crash"]["last_exception_backtrace"]["contents"].as_array().unwrap();
    let inlined =
        exception.iter().filter(|frame| frame["instruction_addr"] == json!(0x1_0413_0e78_u64)).count();
    assert_eq!(inlined, 1, "three lines of one address");
    let threads = read["crash"]["threads"].as_array().unwrap();
    let with_frames = threads.iter().filter(|thread| thread["backtrace"]["contents"].is_array()).count();
    let frames = places(&log, with_frames);
    let async_frame = frames.iter().find(|frame| frame.lookup % 4 == 0 && !frame.is_exact);
    assert!(async_frame.is_some(), "an async frame is looked up where it begins: {frames:?}");
}

#[test]
fn published_payloads_are_read() {
    let test = "published payloads of MetricKit have their diagnostics";
    let Some(samples) = fixtures::published(test, "apple/metrickit", ".json", 10) else { return };
    let limits = ReadLimits::default();
    for path in samples {
        let name = file_name(&path);
        let payload = std::fs::read(&path).unwrap();
        let parts = readers().split_document(&payload, &limits);
        let expected = match name.as_str() {
            "meter-ios14-two-crashes.json" => 2,
            "synthetic-MXDiagnosticPayload.json" | "meter-xcode-simulated-ios14.json" => 4,
            "meter-xcode-simulated-macos12.json" => parts.as_ref().map_or(0, Vec::len),
            _ => 0,
        };
        assert_eq!(parts.as_ref().map_or(0, Vec::len), expected, "{name}");
        for part in parts.unwrap_or_default() {
            let readers = readers();
            let document = readers.open(&part, &limits).unwrap();
            let accepted = Report::read_event(document.json(), &limits);
            assert!(accepted.is_ok(), "{name}: {accepted:?}");
        }
        match name.as_str() {
            "tree-real.json" | "per-thread.json" | "axiom-one-diagnostic.json" => {
                let (result, written) = enriched(&payload);
                assert!(result.frames.total > 1, "{name}");
                assert_eq!(stripped(&written), payload, "{name}");
            }
            "not-per-thread.json" | "tree-garbage.json" => {
                let refused = readers().translate(&payload, &limits);
                assert!(refused.is_err() || refused.is_ok_and(|translated| translated.is_none()), "{name}");
            }
            _ => {}
        }
    }
}

#[test]
fn load_addresses_of_ios_14_are_recognised() {
    let test = "the load addresses of a published payload";
    let Some(samples) = fixtures::published(test, "apple/metrickit", "two-crashes.json", 1) else { return };
    let payload = std::fs::read(&samples[0]).unwrap();
    let parts = readers().split_document(&payload, &ReadLimits::default()).unwrap();
    let frames = places(&parts[0], 0);
    let offsets: Vec<u64> = frames.iter().take(3).map(|frame| frame.offset).collect();
    let library = 6_859_816_880 - 6_859_616_256;
    assert_eq!(offsets, [library, library, 4_303_609_936 - 4_303_568_896], "equal frames stay, too");
}
