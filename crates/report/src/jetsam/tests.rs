use super::*;
use crate::{Element, MemoryEventKind, Report, split_record};
use unslide_testkit::fixtures;

const HEADER: &str = r#"{"bug_type":"298","timestamp":"2026-03-02 11:00:00.00 +0900","os_version":"iPhone OS 18.3.1 (22D72)"}"#;

/// An event with these processes.
fn event(processes: &str) -> String {
    format!(
        r#"{{"bug_type":"298","incident":"66666666-7777-8888-9999-AAAAAAAAAAAA","product":"iPhone16,1",
        "build":"iPhone OS 18.3.1 (22D72)","date":"2026-03-02 11:00:00.00 +0900","crashReporterKey":"k",
        "largestProcess":"Shop","memoryStatus":{{"pageSize":16384,"compressorSize":10,"memoryPages":{{"free":3}}}},
        "processes":[{processes}]}}"#
    )
}

const SHOP: &str = r#"{"name":"Shop","uuid":"a1b2c3d4-0000-3111-8222-0123456789ab","pid":42,"states":["frontmost"],
    "rpages":134000,"lifetimeMax":133000,"priority":100,"reason":"per-process-limit"}"#;
const DAEMON: &str = r#"{"name":"daemond","states":["daemon","idle"],"rpages":804,"reason":"idle-exit"}"#;
const BYSTANDER: &str = r#"{"name":"Maps","states":["suspended"],"rpages":9000}"#;

fn read(text: &str) -> Result<JetsamEvent, ReadError> {
    JetsamEvent::read(text.as_bytes(), &ReadLimits::default())
}

fn report(processes: &str) -> (Option<crate::MemoryEvent>, crate::ReportSummary) {
    let event = event(processes);
    let report = Report::read_event(event.as_bytes(), &ReadLimits::default()).unwrap();
    let summary = report.summary();
    assert_eq!(report.app(), summary.app);
    (report.memory_event().cloned(), summary)
}

#[test]
fn a_log_is_read_with_and_without_its_header() {
    let event = event(&format!("{BYSTANDER},{DAEMON},5,{SHOP}"));
    let log = read(&format!("{HEADER}\n{event}\n")).unwrap();
    assert_eq!(log, read(&event).unwrap());
    assert_eq!((log.page_size, log.compressor), (16_384, Some(163_840)));
    assert_eq!(log.time.unwrap().unix_timestamp(), 1_772_416_800);
    assert_eq!(log.pages, [("free".to_owned(), 3)]);
    let killed: Vec<_> = log.killed_processes().into_iter().map(|process| process.name.as_str()).collect();
    assert_eq!(killed, ["Shop", "daemond"]);
    let shop = log.find_process("Shop").unwrap();
    assert_eq!((shop.footprint, shop.lifetime_max), (134_000 * 16_384, Some(133_000 * 16_384)));
    assert!(shop.is_foreground() && shop.is_out_of_memory() && shop.debug_id.is_some());
    assert!(!log.find_process("daemond").unwrap().is_out_of_memory());
    let system = log.system_parts().map(Option::unwrap_or_default);
    assert_eq!(system, ["iPhone OS", "18.3.1", "22D72"]);
}

#[test]
fn a_name_is_compared_as_far_as_the_kernel_keeps_it() {
    let log = read(&event(r#"{"name":"TGOnDeviceInferenceProviderServi","rpages":1}"#)).unwrap();
    assert!(log.find_process("TGOnDeviceInferenceProviderService").is_some());
    assert!(log.find_process("TGOnDevice").is_none());
}

#[test]
fn what_is_no_event_is_refused_and_every_list_is_bounded() {
    for other in [
        "{}",
        r#"{"memoryStatus":{"pageSize":16384}}"#,
        r#"{"memoryStatus":{"pageSize":0},"processes":[]}"#,
        r#"{"bug_type":"309","memoryStatus":{"pageSize":1},"processes":[]}"#,
        r#"{"memoryStatus":{"pageSize":1},"processes":{}}"#,
        "[]",
    ] {
        assert!(matches!(read(other), Err(ReadError::NoCrash { .. })), "{other}");
    }
    assert!(read("{").is_err() && read("").is_err() && read("\u{0}").is_err());
    let many = vec!["{}"; MOST_PROCESSES + 3].join(",");
    let log = read(&event(&many)).unwrap();
    assert_eq!((log.processes.len(), log.left_out), (MOST_PROCESSES, 3));
    let huge = format!(r#"{{"name":"{}","rpages":18446744073709551615}}"#, "x".repeat(5_000));
    let log = read(&event(&huge)).unwrap();
    assert_eq!((log.processes[0].name.len(), log.processes[0].footprint), (MOST_CHARS, u64::MAX));
}

#[test]
fn a_log_in_a_record_is_one_report() {
    let event = event(SHOP);
    let log = format!("{HEADER}\n{event}\n");
    let parts = split_record(log.as_bytes(), &ReadLimits::default()).unwrap();
    assert_eq!(parts, [Element::Report(event.as_bytes())]);
    // Other logs of Apple's and lines of reports stay what they are.
    for other in
        [log.replacen("298", "309", 1), format!("{{\"bug_type\":\"298\"}}\n[{event}]"), event.clone()]
    {
        let parts = split_record(other.as_bytes(), &ReadLimits::default()).unwrap();
        assert_eq!(parts, [Element::Report(other.as_bytes())]);
    }
}

#[test]
fn the_report_is_of_the_process_that_was_killed() {
    let (event, summary) = report(&format!("{DAEMON},{SHOP},{BYSTANDER}"));
    let event = event.unwrap();
    assert_eq!((event.kind, event.foreground), (MemoryEventKind::OutOfMemory, Some(true)));
    assert_eq!(event.describe_reason().unwrap(), "per-process-limit: the footprint is 2094 MB");
    assert_eq!((summary.app.as_deref(), summary.process_name.as_deref()), (Some("Shop"), Some("Shop")));
    assert_eq!(summary.device_model.as_deref(), Some("iPhone16,1"));
    assert_eq!(summary.os_version.as_deref(), Some("18.3.1"));
    assert_eq!(summary.device_hash.as_deref(), Some("k"));
    assert_eq!(summary.timestamp.unwrap().unix_timestamp(), 1_772_416_800);
    let (event, summary) = report(DAEMON);
    assert_eq!(event.unwrap().kind, MemoryEventKind::Termination);
    assert_eq!(summary.reason.unwrap(), "idle-exit: the footprint is 13 MB");
}

#[test]
fn a_log_in_which_the_app_was_not_killed_is_a_warning() {
    let (event, summary) = report(BYSTANDER);
    assert_eq!(event.unwrap().kind, MemoryEventKind::Warning);
    assert_eq!((summary.app, summary.fatal), (None, Some(false)));
    // The sender says which process is its app.
    let named = event_with_system(&format!("{SHOP},{BYSTANDER}"), "Maps");
    let report = Report::read(named.as_bytes(), &ReadLimits::default()).unwrap();
    let found = report.memory_event().unwrap();
    assert_eq!((found.kind, found.footprint), (MemoryEventKind::Warning, Some(9_000 * 16_384)));
    assert_eq!((report.app(), report.app()), (report.summary().app, Some("com.example.maps".to_owned())));
}

#[test]
fn a_bundle_identifier_names_no_process() {
    let event = event(SHOP).replacen('{', r#"{"system":{"CFBundleIdentifier":"com.example.maps"},"#, 1);
    let report = Report::read(event.as_bytes(), &ReadLimits::default()).unwrap();
    assert_eq!(report.memory_event().unwrap().kind, MemoryEventKind::Warning);
    let summary = report.summary();
    assert_eq!((summary.app.as_deref(), summary.process_name), (Some("com.example.maps"), None));
    let elsewhere = format!(r#"{{"memoryStatus":{{"pageSize":1}},"user":{{"processes":[{SHOP}]}}}}"#);
    assert_eq!(Report::read(elsewhere.as_bytes(), &ReadLimits::default()).unwrap().memory_event(), None);
}

fn event_with_system(processes: &str, executable: &str) -> String {
    let system = format!(
        r#"{{"system":{{"CFBundleIdentifier":"com.example.maps","CFBundleExecutable":"{executable}"}},"#
    );
    event(processes).replacen('{', &system, 1)
}

#[test]
fn published_logs_are_read() {
    let test = "published Jetsam logs are read";
    let Some(files) = fixtures::published(test, "apple/jetsam", ".ips", 2) else { return };
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        let log = JetsamEvent::read(&bytes, &ReadLimits::default()).unwrap();
        assert!(
            log.killed_processes()
                .iter()
                .all(|process| process.reason.as_deref() == Some("per-process-limit"))
        );
        assert!(!log.killed_processes().is_empty() && log.time.is_none_or(|time| time.year() == 2026));
    }
}
