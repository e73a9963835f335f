//! Tests of the readers: facts of logs, answers that go back to their places, and hostile input.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod call_trees;
mod causes;
mod diagnostic_report_forms;
mod diagnostic_reports;
mod encoded_texts;
mod hostile;
mod jetsam_logs;
mod logs;
mod metric_kit;
mod monitors;
mod one_crash;
mod pasted;
mod samples;
mod samples_of_texts;
mod system_images;
mod texts;
mod traps;
mod writing;

use serde_json::{Value, json};
use unslide_apple_reports_formats::READERS;
use unslide_report::reader::{ReportReaders, TranslatedReport};
use unslide_report::{ReadError, ReadLimits, Report};
use unslide_symbolicate::{Context, Enrichment, LocatedFrame, Plan};

/// The load address of the app in [`body`].
pub const APP: u64 = 0x1_0000_0000;
/// The debug id of the app in [`body`].
pub const APP_ID: &str = "a1b2c3d4-0000-3111-8222-0123456789ab";
/// The load address of the system's library in [`body`].
pub const LIBRARY: u64 = 0x1_8000_0000;

/// Returns the readers of the feature.
pub fn readers() -> ReportReaders {
    ReportReaders::new(READERS.iter().copied())
}

#[test]
fn every_format_has_a_row_in_the_documentation() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/apple-reports.md");
    let page = std::fs::read_to_string(page).unwrap();
    for reader in READERS {
        assert!(page.contains(&format!("\n| `{}` |", reader.name)), "{} has no row", reader.name);
    }
}

/// Translates a log that a reader recognises.
pub fn translate(log: &[u8]) -> Result<TranslatedReport, ReadError> {
    Ok(readers().translate(log, &ReadLimits::default())?.expect("a recognised log"))
}

/// Returns the report of a log as JSON.
pub fn report(log: &[u8]) -> Value {
    serde_json::from_slice(&translate(log).unwrap().json).unwrap()
}

/// Symbolicates a log without symbols. Returns the enriched document as well.
pub fn enriched(log: &[u8]) -> (Enrichment, Vec<u8>) {
    let document = readers();
    let document =
        document.open(log, &ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() }).unwrap();
    let report = Report::read_event(document.json(), &ReadLimits::default()).unwrap();
    let enriched = Plan::new(&report).enrich(&|_| None, &Context::default());
    let written = document.write(enriched.bytes.clone()).unwrap();
    (enriched, written)
}

/// Returns the document without our members.
pub fn stripped(document: &[u8]) -> Vec<u8> {
    let readers = readers();
    let opened = readers.open(document, &ReadLimits::default()).unwrap();
    opened.stripped().unwrap().into_owned()
}

/// Returns the places of the frames of the backtrace at a position.
pub fn places(log: &[u8], position: usize) -> Vec<LocatedFrame> {
    let readers = readers();
    let document = readers.open(log, &ReadLimits::default()).unwrap();
    let report = Report::read_event(document.json(), &ReadLimits::default()).unwrap();
    Plan::new(&report).located_frames(position)
}

/// Returns the header line of a log.
pub fn header() -> Value {
    json!({"app_name": "Shop", "timestamp": "2026-03-02 10:11:12.00 +0900", "app_version": "4.2.0",
           "slice_uuid": APP_ID, "build_version": "4201", "platform": 2, "bundleID": "org.example.shop",
           "bug_type": "309", "os_version": "iPhone OS 18.3.1 (22D72)",
           "incident_id": "11111111-2222-3333-4444-555555555555"})
}

/// Returns the crash of a log: a bad access in the app, called by the app, called by the system.
pub fn body() -> Value {
    json!({"incident": "11111111-2222-3333-4444-555555555555", "pid": 4242, "procName": "Shop",
           "procPath": "/private/var/containers/Bundle/Application/1/Shop.app/Shop", "modelCode": "iPhone16,1",
           "cpuType": "ARM-64", "captureTime": "2026-03-02 10:11:11.9012 +0900",
           "crashReporterKey": "0123456789abcdef0123456789abcdef01234567",
           "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV", "rawCodes": [1, 18_446_744_073_709_551_608_u64],
                         "codes": "0x0000000000000001, 0xfffffffffffffff8",
                         "subtype": "KERN_INVALID_ADDRESS at 0xfffffffffffffff8"},
           "termination": {"namespace": "SIGNAL", "code": 11, "indicator": "Segmentation fault: 11"},
           "faultingThread": 1,
           "threads": [
               {"id": 77, "name": "worker", "frames": [frame(1, 16)]},
               {"id": 78, "triggered": true, "queue": "com.apple.main-thread",
                "frames": [frame(0, 4096), frame(0, 4200), frame(1, 64)]}],
           "usedImages": [
               {"source": "P", "arch": "arm64", "base": APP, "size": 65_536, "uuid": APP_ID,
                "path": "/private/var/containers/Bundle/Application/1/Shop.app/Shop", "name": "Shop"},
               {"source": "S", "arch": "arm64e", "base": LIBRARY, "size": 65_536,
                "uuid": "b1b2c3d4-0000-3111-8222-0123456789ab", "path": "/usr/lib/libobjc.A.dylib",
                "name": "libobjc.A.dylib"},
               {"size": 0, "source": "A", "base": 0, "uuid": "00000000-0000-0000-0000-000000000000"}]})
}

/// Returns a frame of a log.
pub fn frame(image: u64, offset: u64) -> Value {
    json!({"imageIndex": image, "imageOffset": offset})
}

/// Returns a log as devices write it: the header on one line, the crash on many.
pub fn log_of(body: &Value) -> Vec<u8> {
    format!("{}\n{}\n", header(), serde_json::to_string_pretty(body).unwrap()).into_bytes()
}
