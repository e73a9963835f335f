//! Fault analysis on planned crashes, on small reports for each rule, and through the api.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::print_stdout,
    reason = "the test of the crash lab prints what it compared, or that it did not run"
)]

mod causes;
mod groups;
mod lab;
mod rules;
mod samples;
mod subjects;
mod switch;
mod variables;

use serde_json::Value;
use unslide_fault_analysis::ANALYSIS;
use unslide_report::{ReadLimits, Report, splice};
use unslide_symbolicate::{Context, enrich};

/// Enriches a report without symbols, and returns its fault.
fn fault(report: &[u8]) -> Value {
    let read = Report::read(report, &ReadLimits::default()).unwrap();
    let context = Context { analyses: &[ANALYSIS], ..Context::default() };
    let enriched = enrich(&read, &|_| None, &context).bytes;
    let again = Report::read_stored(&enriched).unwrap();
    assert_eq!(enrich(&again, &|_| None, &context).bytes, enriched, "the same report has the same fault");
    assert_eq!(splice::strip_additions(&enriched, &ReadLimits::default()).unwrap(), report);
    let whole: Value = serde_json::from_slice(&enriched).unwrap();
    whole["symbolication"]["fault"].clone()
}
