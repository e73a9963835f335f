//! The system's own reports about the broken release: Jetsam event logs, and MetricKit's diagnostics of CPU
//! use and of slow launches.

use super::builds::{BUILDS, Build};
use super::{BoxError, HANG, MEMORY, RunEnd, Sent, made};
use rand::rngs::SmallRng;
use serde_json::{Value, json};

/// The first id of the reports.
const IDS: u64 = 1 << 23;
/// Reports, one each twenty minutes.
const REPORTS: i64 = 9;
/// Bytes of a page of memory, and pages that the app may have.
const PAGE: u64 = 16_384;
const LIMIT: u64 = 128_064;

/// Returns the release that breaks paying, and leaks.
fn broken_release() -> &'static Build {
    &BUILDS[2]
}

/// Creates the reports, the last of them of now.
pub fn reports(now: i64, random: &mut SmallRng) -> Result<Vec<Sent>, BoxError> {
    let mut sent = Vec::new();
    for number in 0..REPORTS {
        let (at, id) = (now - number * 1_200_000, IDS + number.unsigned_abs());
        let (mut run, report) = made(broken_release(), 0, id, at, random)?;
        let (bug, end, told) = match number % 3 {
            0 => (MEMORY, RunEnd::OutOfMemory { foreground: true }, jetsam_event(&report)),
            1 => {
                (HANG, RunEnd::Exit, diagnostic(&report, "cpuExceptionDiagnostics", "totalCPUTime", "48 sec"))
            }
            _ => (
                HANG,
                RunEnd::Exit,
                diagnostic(&report, "appLaunchDiagnostics", "launchDuration", "4,200 ms"),
            ),
        };
        run.end = end;
        sent.push(Sent::from_run(run, bug, &told)?);
    }
    Ok(sent)
}

/// Creates the event of an app that is killed at its limit. The sender has added the fields that the kernel
/// does not know.
fn jetsam_event(report: &Value) -> Value {
    let process = |name: &str, pages: u64, state: &str| json!({"name": name, "rpages": pages, "lifetimeMax": pages, "states": [state]});
    let mut app = process("Cafe", LIMIT, "frontmost");
    app["reason"] = json!("per-process-limit");
    json!({"report": report["report"], "system": report["system"], "bug_type": "298",
        "product": report["system"]["machine"], "largestProcess": "Cafe",
        "memoryStatus": {"pageSize": PAGE, "compressorSize": 61_000,
            "memoryPages": {"active": 96_000, "inactive": 61_000, "wired": 88_000, "free": 4_000}},
        "processes": [process("SpringBoard", 9_200, "active"), app, process("Music", 5_100, "audio"),
            process("Maps", 21_400, "suspended")]})
}

/// Samples of the report's stack in MetricKit's form: each frame lies in the one that called it.
fn diagnostic(report: &Value, list: &str, measure: &str, measured: &str) -> Value {
    let images = || report["binary_images"].as_array().into_iter().flatten();
    let frames = report["crash"]["threads"][0]["backtrace"]["contents"].as_array().into_iter().flatten();
    let tree = frames.fold(Vec::new(), |inner: Vec<Value>, frame| {
        let (base, address) = (&frame["object_addr"], &frame["instruction_addr"]);
        let image = images().find(|image| image["image_addr"] == *base);
        let offset = address.as_u64().unwrap_or_default() - base.as_u64().unwrap_or_default();
        vec![json!({"binaryUUID": image.map(|image| &image["uuid"]), "binaryName": frame["object_name"],
            "address": address, "offsetIntoBinaryTextSegment": offset, "sampleCount": 24, "subFrames": inner})]
    });
    let system = &report["system"];
    let about = json!({"bundleIdentifier": system["CFBundleIdentifier"],
        "appVersion": system["CFBundleShortVersionString"], "appBuildVersion": system["CFBundleVersion"],
        "deviceType": system["machine"], "platformArchitecture": "arm64e", "regionFormat": "US",
        "osVersion": format!("iPhone OS {}", system["system_version"].as_str().unwrap_or_default()),
        measure: measured});
    let stacks = json!({"callStackPerThread": false, "callStacks": [{"callStackRootFrames": tree}]});
    json!({"report": report["report"],
        list: [{"version": "1.0.0", "callStackTree": stacks, "diagnosticMetaData": about}]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use unslide_report::{ReadLimits, Report};

    #[test]
    fn the_reports_are_what_the_system_writes_with_the_session_that_they_are_of() {
        let sent = reports(1_800_000_000_000, &mut SmallRng::seed_from_u64(7)).unwrap();
        let mut kinds = Vec::new();
        for sent in &sent[..3] {
            let report = Report::read_event(&sent.body, &ReadLimits::default()).unwrap();
            let summary = report.summary();
            assert_eq!(summary.app.as_deref(), Some(broken_release().app));
            assert_eq!(summary.version.as_deref(), Some(broken_release().version));
            assert_eq!(summary.run_id.as_deref(), Some(sent.run.id.as_str()));
            kinds.push((summary.error_type.unwrap(), summary.duration_ms, summary.memory_limit));
        }
        let kind = |name: &str, millis, limit| (name.to_owned(), millis, limit);
        assert_eq!(
            kinds,
            [
                kind("out_of_memory", None, Some(PAGE * LIMIT)),
                kind("cpu", Some(48_000), None),
                kind("launch", Some(4_200), None)
            ]
        );
    }
}
