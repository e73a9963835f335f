//! Reports for tests of their events.

use unslide_harness::database::{arrival, grouping};
use unslide_store::Uuid;
use unslide_store::persons::hash_person;
use unslide_store::reports::{Arrival, FrameTotals};

/// Texts that name a person or a device in [`named_report`].
pub const NAMES: [&str; 6] =
    ["robin", "Robin's iPhone", "robin@example.com", "ShopOfRobin", "checkout of Robin", "robin-thread"];
/// The run in [`named_report`].
pub const RUN: &str = "0198c0de-0000-7000-8000-0000000000aa";

/// Report `n` with all that a report can say of a person.
pub fn named_report(n: u8) -> Arrival {
    let mut report = arrival(n);
    let facts = &mut report.facts;
    facts.device = Some(hash_person("Robin's iPhone").to_vec());
    facts.users = vec![hash_person("robin")];
    facts.run_id = RUN.parse().ok();
    facts.process = Some("ShopOfRobin".to_owned());
    facts.reason = Some("no mail for robin@example.com".to_owned());
    facts.os_name = Some("iOS".to_owned());
    facts.os_version = Some("27.0".to_owned());
    facts.os_build = Some("24A300".to_owned());
    facts.model = Some("iPhone17,1".to_owned());
    facts.device_time = Some(report.received_at - time::Duration::MINUTE);
    facts.summary = serde_json::json!({"exception": "EXC_BAD_ACCESS", "signal": "SIGSEGV", "cpu_arch": "arm64",
        "thread_name": "robin-thread"});
    facts.context = serde_json::json!({"facts": {}, "keys": {"cart": "checkout of Robin"}, "verdicts": {"fault": "trap"},
        "subjects": {}, "hints": {}});
    if let Some(grouping) = &mut facts.grouping {
        grouping.title = "checkout of Robin failed".to_owned();
    }
    report
}

/// The next revision of a report, after its symbols came.
pub fn revise_report(report: &Arrival) -> Arrival {
    let mut next = Arrival { revision: report.revision + 1, ..report.clone() };
    next.facts.status = "complete".to_owned();
    next.facts.frames = FrameTotals { symbolicated: 8, missing: 0, own_symbolicated: 6, ..next.facts.frames };
    next.facts.grouping = Some(grouping(1, false));
    next.images.iter_mut().for_each(|image| image.found = true);
    next
}

/// Report `n` of a run of an app, by its handler or by MetricKit.
pub fn report_of_run(n: u8, run: u8, metric_kit: bool) -> Arrival {
    let mut report = arrival(n);
    report.facts.run_id = Some(Uuid::from_bytes([run; 16]));
    report.facts.metric_kit = metric_kit;
    report
}
