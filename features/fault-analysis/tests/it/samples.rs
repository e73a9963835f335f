//! Public reports, which are not part of the repository.

use crate::fault;
use unslide_report::{ReadLimits, Report};
use unslide_testkit::fixtures::published;

/// The longest member of a report.
const MOST_BYTES: usize = 8 << 10;

#[test]
fn public_reports_have_a_fault_with_a_sentence_or_none() {
    let test = "public_reports_have_a_fault_with_a_sentence_or_none";
    let mut found = 0;
    for path in published(test, "kscrash", ".json", 31).into_iter().flatten() {
        let bytes = std::fs::read(&path).unwrap();
        let is_report =
            Report::read_event(&bytes, &ReadLimits::default()).is_ok_and(|report| report.ours.is_none());
        if !is_report {
            continue;
        }
        let fault = fault(&bytes);
        if fault.is_null() {
            continue;
        }
        found += 1;
        println!("{}: {}", path.display(), fault["sentence"]);
        assert!(fault["sentence"].as_str().unwrap().ends_with('.') && fault.to_string().len() < MOST_BYTES);
    }
    println!("{found} public reports have a fault");
}
