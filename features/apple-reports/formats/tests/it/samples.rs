//! Published logs, where they lie beside the repository. They are not part of it.

use crate::{enriched, places, report, stripped};
use serde_json::{Value, json};
use unslide_testkit::fixtures;

/// Facts of a published log.
struct SampleFacts {
    name: &'static str,
    id: &'static str,
    system: [&'static str; 3],
    error: Value,
    exception: &'static str,
    crashed: u64,
    threads: usize,
    /// Offsets of the first frames of the crashed thread.
    offsets: &'static [u64],
    /// Number of frames of the exception.
    exception_frames: usize,
}

fn expected() -> Vec<SampleFacts> {
    vec![
        SampleFacts {
            name: "ddg-macos12-trailing-text.ips",
            id: "F3F13C9E-2929-4561-BDFB-3921284335D4",
            system: ["macOS", "12.0.1", "21A559"],
            error: json!("mach"),
            exception: "EXC_BREAKPOINT",
            crashed: 0,
            threads: 17,
            offsets: &[239_836, 239_836, 2_068_696, 2_383_908],
            exception_frames: 0,
        },
        SampleFacts {
            name: "idb-xctest-concated-json-crash.ips",
            id: "FC4D11AC-D309-4C8E-816E-7B6E676A86BB",
            system: ["macOS", "12.3.1", "21E258"],
            error: json!("mach"),
            exception: "EXC_BREAKPOINT",
            crashed: 0,
            threads: 3,
            offsets: &[4_752, 4_752, 1_170_080, 1_159_112],
            exception_frames: 0,
        },
        SampleFacts {
            name: "llvm-asi-macos13.ips",
            id: "E62DF457-8BBC-4E92-AECA-11D1B55246E3",
            system: ["macOS", "13.0", ""],
            error: json!("nsexception"),
            exception: "EXC_CRASH",
            crashed: 0,
            threads: 1,
            offsets: &[37_412, 27_884, 496_328, 72_472],
            exception_frames: 7,
        },
        SampleFacts {
            name: "sym-ios15-tcc.ips",
            id: "4904A8AF-6173-4A1B-B354-0A9C4FB1F673",
            system: ["iOS", "15.2.1", "19C63"],
            error: json!("mach"),
            exception: "EXC_CRASH",
            crashed: 1,
            threads: 8,
            offsets: &[175_352, 185_784, 185_836, 29_392],
            exception_frames: 0,
        },
        SampleFacts {
            name: "synthetic-309.ips",
            id: "11111111-2222-3333-4444-555555555555",
            system: ["iOS", "18.3.1", "22D72"],
            error: json!("nsexception"),
            exception: "EXC_CRASH",
            crashed: 0,
            threads: 2,
            offsets: &[42_768, 20_992],
            exception_frames: 4,
        },
    ]
}

/// Proves: unchanged-bytes
#[test]
fn published_logs_have_their_facts_and_come_back_unchanged() {
    let test = "published Apple logs have their facts";
    let Some(samples) = fixtures::published(test, "apple/ips", ".ips", 5) else { return };
    let expected = expected();
    for path in samples {
        let name = path.file_name().unwrap().to_string_lossy();
        let log = std::fs::read(&path).unwrap();
        let (_, written) = enriched(&log);
        assert!(written.len() > log.len());
        assert_eq!(stripped(&written), log, "{name}");
        let Some(facts) = expected.iter().find(|facts| facts.name == name) else { continue };
        let report = report(&log);
        assert_eq!(report["report"]["id"], facts.id, "{name}");
        let system = ["system_name", "system_version", "os_version"];
        assert_eq!(
            system.map(|key| report["system"][key].as_str().unwrap_or_default()),
            facts.system,
            "{name}"
        );
        let error = &report["crash"]["error"];
        assert_eq!(
            (&error["type"], &error["mach"]["exception_name"]),
            (&facts.error, &json!(facts.exception)),
            "{name}"
        );
        let threads = report["crash"]["threads"].as_array().unwrap();
        assert_eq!(threads.len(), facts.threads, "{name}");
        let crashed: Vec<&Value> = threads.iter().filter(|thread| thread["crashed"] == json!(true)).collect();
        assert_eq!((crashed.len(), &crashed[0]["index"]), (1, &json!(facts.crashed)), "{name}");
        let exception = report["crash"]["last_exception_backtrace"]["contents"].as_array();
        assert_eq!(exception.map_or(0, Vec::len), facts.exception_frames, "{name}");
        // Threads without frames have no backtrace.
        let with_frames = threads.iter().filter(|thread| thread["backtrace"]["contents"].is_array());
        let position = with_frames.take_while(|thread| thread["crashed"] == json!(false)).count();
        let frames = places(&log, position);
        let offsets: Vec<u64> = frames.iter().map(|frame| frame.offset).collect();
        assert!(offsets.starts_with(facts.offsets), "{name}: {offsets:?}");
        assert!(frames[0].is_exact && frames.iter().skip(1).all(|frame| !frame.is_exact), "{name}");
    }
}
