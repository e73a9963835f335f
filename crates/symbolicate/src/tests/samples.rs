//! Published reports of real devices, where they lie beside the repository.

use crate::{Context, enrich};
use std::path::{Path, PathBuf};
use unslide_report::{ReadLimits, Report, splice};

fn json_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            json_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

#[test]
fn published_reports_are_given_back_byte_for_byte() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples/kscrash");
    let mut files = Vec::new();
    json_files(&beside, &mut files);
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let limits = ReadLimits::default();
        let report = match Report::read(&bytes, &limits) {
            Ok(report) => report,
            // The one sample with trailing commas.
            Err(_) if file.ends_with("sigterm.json") => continue,
            Err(error) => panic!("{}: {error}", file.display()),
        };
        let enriched = enrich(&report, &|_| None, &Context::default());
        let stripped = splice::strip(&enriched.bytes, &limits).unwrap();
        assert!(stripped == bytes, "{}", file.display());
        let again = Report::read(&enriched.bytes, &limits).unwrap();
        let twice = enrich(&again, &|_| None, &Context::default());
        assert!(twice.bytes == enriched.bytes, "{}", file.display());
    }
}
