//! Public reports, which are not part of the repository.

use crate::fault_analysis::fault;
use unslide_report::{ReadLimits, Report};
use unslide_testkit::fixtures::published;

/// The longest member of a report.
const MOST_BYTES: usize = 8 << 10;

/// The verdicts of reports of real devices and of simulators, from their codes and registers by hand.
const VERDICTS: [(&str, &str); 7] = [
    ("KSCrashReport1.json", "null_pointer"),
    ("Abort.json", "abort"),
    ("CorruptMemory.json", "abort"),
    // It jumps into a page without the permission to execute.
    ("NX-Page.json", "execute_data"),
    ("crash-report-1.json", "invalid_pointer"),
    ("crash-report-legacy-storage-info.json", "null_pointer"),
    ("fatal-error-notable-addresses.json", "trap"),
];

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
        let planned = VERDICTS.iter().find(|(name, _)| path.ends_with(name));
        assert!(
            planned.is_none_or(|(_, verdict)| fault["verdict"] == *verdict),
            "{}: {fault}",
            path.display()
        );
        if fault.is_null() {
            continue;
        }
        found += 1;
        println!("{}: {}", path.display(), fault["sentence"]);
        assert!(fault["sentence"].as_str().unwrap().ends_with('.') && fault.to_string().len() < MOST_BYTES);
    }
    println!("{found} public reports have a fault");
}
