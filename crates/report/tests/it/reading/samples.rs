//! Published reports, where they lie beside the repository. They are not part of it.

use crate::{enrich, read, reason, strip};
use std::path::{Path, PathBuf};
use unslide_report::{ReadLimits, Report};

fn samples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples/kscrash");
    let mut folders = vec![root];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Proves: unchanged-bytes
#[test]
fn published_reports_are_read_and_come_back_unchanged() {
    let samples = samples();
    if samples.is_empty() {
        println!("no published reports beside the repository: nothing is tested");
        return;
    }
    let (mut threads, mut frames) = (0, 0);
    for path in &samples {
        let bytes = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "sigterm.json" {
            // It has a trailing comma.
            assert_eq!(reason(&bytes), "not_json");
            continue;
        }
        assert!(Report::accept(&bytes, &ReadLimits::default()).is_ok(), "{name}");
        let enriched = enrich(&bytes);
        assert!(enriched.len() > bytes.len(), "{name}");
        assert_eq!(strip(&enriched), bytes, "{name}");
        assert_eq!(strip(&bytes), bytes, "{name}");
        let report = read(&bytes);
        frames += report.backtraces.iter().map(|b| b.frames.len()).sum::<usize>();
        threads += report.backtraces.iter().filter(|b| !b.frames.is_empty() && b.thread.is_some()).count();
        assert!(!unslide_report::text::apple_log(&report).is_empty());
        assert!(report.summary().report_id.is_some());
    }
    println!("{} reports, {threads} threads with frames, {frames} frames", samples.len());
    assert!(samples.len() > 30 && threads > 150 && frames > 1_000);
}
