//! Public reports, which are not part of the repository.

use crate::fault;
use serde_json::Value;
use std::path::{Path, PathBuf};
use unslide_report::{ReadLimits, Report};

/// The folder of public reports.
const SAMPLES: &str = "/work/shared/samples/kscrash";
/// The longest member of a report.
const MOST_BYTES: usize = 8 << 10;

fn reports_below(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.partition(|path| path.is_dir());
    let mut found: Vec<PathBuf> = folders.iter().flat_map(|folder| reports_below(folder)).collect();
    found.extend(files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "json")));
    found.sort();
    found
}

#[test]
fn public_reports_have_a_fault_with_a_sentence_or_none() {
    let folder = Path::new(SAMPLES);
    if !folder.is_dir() {
        println!("{SAMPLES} is not there: public reports are not tested");
        return;
    }
    let mut found = 0;
    for path in reports_below(folder) {
        let bytes = std::fs::read(&path).unwrap();
        let is_report =
            Report::accept(&bytes, &ReadLimits::default()).is_ok_and(|report| report.ours.is_none());
        let fault = if is_report { fault(&bytes) } else { Value::Null };
        if fault.is_null() {
            continue;
        }
        found += 1;
        println!("{}: {}", path.display(), fault["sentence"]);
        assert!(fault["sentence"].as_str().unwrap().ends_with('.') && fault.to_string().len() < MOST_BYTES);
    }
    println!("{found} public reports have a fault");
}
