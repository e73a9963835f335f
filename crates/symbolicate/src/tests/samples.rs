//! Published reports of real devices, where they lie beside the repository.

use crate::{Context, enrich};
use unslide_report::{ReadLimits, Report, splice};
use unslide_testkit::fixtures;

#[test]
fn published_reports_are_given_back_byte_for_byte() {
    let test = "published reports are given back byte for byte";
    let Some(files) = fixtures::published(test, "kscrash", ".json", 31) else { return };
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
        let stripped = splice::strip_additions(&enriched.bytes, &limits).unwrap();
        assert!(stripped == bytes, "{}", file.display());
        let again = Report::read(&enriched.bytes, &limits).unwrap();
        let twice = enrich(&again, &|_| None, &Context::default());
        assert!(twice.bytes == enriched.bytes, "{}", file.display());
    }
}
