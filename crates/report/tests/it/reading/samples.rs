//! Published reports, where they lie beside the repository. They are not part of it.

use crate::{enrich, read, reason, strip};
use unslide_report::{ReadLimits, Report};
use unslide_testkit::fixtures;

/// Words in the names of files that lie beside the reports and are something else.
const NO_REPORTS: [&str; 3] = ["run-summary", "metrickit-payload", "react-native-promise"];

/// Proves: unchanged-bytes
#[test]
fn published_reports_are_read_and_come_back_unchanged() {
    let test = "published reports come back unchanged";
    let Some(samples) = fixtures::published(test, "kscrash", ".json", 31) else { return };
    let (mut threads, mut frames) = (0, 0);
    for path in &samples {
        let bytes = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "sigterm.json" {
            // It has a trailing comma.
            assert_eq!(reason(&bytes), "not_json");
            continue;
        }
        if NO_REPORTS.iter().any(|word| name.contains(word)) {
            assert!(Report::read_event(&bytes, &ReadLimits::default()).is_err(), "{name}");
            continue;
        }
        assert!(Report::read_event(&bytes, &ReadLimits::default()).is_ok(), "{name}");
        let enriched = enrich(&bytes);
        assert!(enriched.len() > bytes.len(), "{name}");
        assert_eq!(strip(&enriched), bytes, "{name}");
        assert_eq!(strip(&bytes), bytes, "{name}");
        let report = read(&bytes);
        frames += report.backtraces.iter().map(|b| b.frames.len()).sum::<usize>();
        threads += report.backtraces.iter().filter(|b| !b.frames.is_empty() && b.thread.is_some()).count();
        assert!(!unslide_report::text::apple_log(&report).is_empty());
        let summary = report.summary();
        assert!(summary.report_id.is_some());
        assert_eq!(report.app(), summary.app, "{name}");
    }
    assert!(threads > 150 && frames > 1_000, "{threads} threads with frames, {frames} frames");
}
