//! Logs of hangs, CPU use and disk writes.

use crate::{enriched, stripped, translate};
use serde_json::{Value, json};
use unslide_report::{DiagnosticKind, ReadLimits, Report};

/// A log of a hang, with a second process and the kernel's code.
const HANG: &str = "\
Date/Time:        2026-03-02 10:11:12.013 +0900
OS Version:       iPhone OS 18.3.1 (Build 22D72)
Architecture:     arm64
Report Version:   35
Data Source:      Stackshots
Command:          Shop
Path:             /var/containers/Bundle/Application/1/Shop.app/Shop
Identifier:       org.example.shop
Version:          4.2.0 (4201)
Event:            hang
Duration:         2.50s
Steps:            25 (100ms sampling interval)
Hardware model:   iPhone16,1

Heaviest stack for the target process:
  25  start + 2544 (dyld + 24144) [0x19a0ffe50]
  25  main + 40 (Shop + 16424) [0x104a04028]

Process:          other [9]
Num samples:      2

  Thread 0x4f0    2 samples (1-2)
  2  main + 1 (other + 1) [0x104b00001]

Process:          Shop [451]
UUID:             A1B2C3D4-0000-3111-8222-0123456789AB
Path:             /var/containers/Bundle/Application/1/Shop.app/Shop
Num samples:      25 (1-25)

  Thread 0x3e8    DispatchQueue \"com.apple.main-thread\"(1)    25 samples (1-25)    priority 46 (base 46)
  25  start + 2544 (dyld + 24144) [0x19a0ffe50]
    25  main + 40 (Shop + 16424) [0x104a04028]
      20  wait + 112 (Shop + 16752) [0x104a04170] 1-20
       *20  semaphore + 0 (kernel + 123) [0xffffff800020007b] 1-20
      5  ??? (Shop + 20992) [0x104a05200] (running) 21-25

  Binary Images:
           0x104a00000 -        0x104a0ffff  Shop (4.2.0) <A1B2C3D4-0000-3111-8222-0123456789AB>  /var/containers/Bundle/Application/1/Shop.app/Shop
           0x19a0fa000 -        0x19a1fffff  dyld (1.0) <B1B2C3D4-0000-3111-8222-0123456789AB>  /usr/lib/dyld
  *0xffffff8000200000 -                ???  kernel (20.1)  <C1B2C3D4-0000-3111-8222-0123456789AB>  /System/Library/Kernels/kernel
";

const HEADER: &str = "{\"app_name\":\"Shop\",\"bug_type\":\"228\",\"bundleID\":\"org.example.shop\",\"app_version\":\"4.2.0\",\
                      \"build_version\":\"4201\",\"os_version\":\"iPhone OS 18.3.1 (22D72)\",\"incident_id\":\"11111111-2222-3333-4444-555555555555\"}\n";

fn diagnostic(log: &str) -> (DiagnosticKind, Option<u64>, Vec<(u64, u64)>) {
    let json = translate(log.as_bytes()).unwrap().json;
    let report = Report::read_event(&json, &ReadLimits::default()).unwrap();
    let profile = report.build_profile().unwrap();
    let offset = |frame: u32| {
        let frame = &profile.backtrace.frames[frame as usize];
        let bits = |number: Option<unslide_report::Number>| number.unwrap().to_bits().unwrap();
        bits(frame.instruction_addr) - bits(frame.object_addr)
    };
    let ends = profile.nodes.iter().filter(|node| node.samples > 0);
    let ends = ends.map(|node| (offset(node.frame), node.samples)).collect();
    (report.diagnostic().unwrap(), report.duration_millis(), ends)
}

#[test]
fn a_hang_has_its_duration_and_the_stacks_of_its_process() {
    for log in [HANG.to_owned(), format!("{HEADER}{HANG}"), HANG.replace('\n', "\r\n")] {
        let (kind, millis, mut ends) = diagnostic(&log);
        ends.sort_unstable();
        assert_eq!((kind, millis), (DiagnosticKind::Hang, Some(2_500)), "{log}");
        assert_eq!(ends, [(16_752, 20), (20_992, 5)], "the kernel's samples are those of its caller");
        let json: Value = serde_json::from_slice(&translate(log.as_bytes()).unwrap().json).unwrap();
        let metadata = &json["hangDiagnostics"][0]["diagnosticMetaData"];
        for (key, expected) in [
            ("bundleIdentifier", json!("org.example.shop")),
            ("appVersion", json!("4.2.0")),
            ("appBuildVersion", json!("4201")),
            ("deviceType", json!("iPhone16,1")),
            ("osVersion", json!("iPhone OS 18.3.1 (22D72)")),
        ] {
            assert_eq!(metadata[key], expected, "{key}");
        }
    }
}

#[test]
fn cpu_use_and_disk_writes_have_their_measurement() {
    let cpu = HANG.replace("hang\nDuration:         2.50s", "cpu usage\nCPU used:         48s");
    assert_eq!(diagnostic(&cpu).0, DiagnosticKind::Cpu);
    assert_eq!(diagnostic(&cpu).1, Some(48_000));
    let writes = HANG.replace(
        "hang\nDuration:         2.50s",
        "disk writes\nWrites:           1073.76 MB of file backed memory dirtied",
    );
    assert_eq!(diagnostic(&writes).0, DiagnosticKind::DiskWrite);
    let json = translate(writes.as_bytes()).unwrap().json;
    let report = Report::read_event(&json, &ReadLimits::default()).unwrap();
    assert_eq!(report.summary().reason.as_deref(), Some("1073.76 MB"));
}

/// Proves: unchanged-bytes
#[test]
fn a_tree_is_answered_beside_its_text() {
    for log in [HANG.to_owned(), format!("{HEADER}{HANG}")] {
        let (result, written) = enriched(log.as_bytes());
        assert_eq!(result.frames.total, 4, "{log}");
        assert_eq!(stripped(&written), log.as_bytes());
        assert_eq!(enriched(&written).1, written);
        let answered: Value = serde_json::from_slice(&written).unwrap();
        let answers = answered["symbolication"]["answers"].as_array().unwrap();
        assert_eq!(answers.len(), 4);
        // Frames end before those that call them.
        let line = usize::try_from(answers[0]["line"].as_u64().unwrap()).unwrap();
        assert!(log.lines().nth(line - 1).unwrap().contains("20  wait + 112"), "{answers:?}");
    }
}

#[test]
fn a_profile_of_no_event_is_refused_with_what_to_do() {
    let sample = "Analysis of sampling Shop (pid 42) every 1 millisecond\nProcess: Shop [42]\n\nCall graph:\n    1 main  (in Shop) + 1  [0x104a00001]\n";
    let error = translate(sample.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("unslide flame"), "{error}");
    let empty = "Event: hang\nData Source: Stackshots\nProcess: Shop [4]\n";
    assert!(translate(empty.as_bytes()).unwrap_err().to_string().contains("a hang"));
}

#[test]
fn deep_and_wide_trees_are_bounded() {
    let mut deep = HANG.split("  Binary Images").next().unwrap().to_owned();
    deep.truncate(deep.trim_end().len());
    deep.push('\n');
    for level in 0..2_000 {
        deep.push_str(&format!("{}5  f (Shop + {level}) [0x104a{level:05x}]\n", " ".repeat(8 + 2 * level)));
    }
    let (result, _) = enriched(deep.as_bytes());
    assert_eq!(result.frames.total, 501);
}
