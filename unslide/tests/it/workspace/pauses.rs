//! Tests wait for conditions and not for time. A long pause says why it is real.

use super::layering::top;
use regex::Regex;
use std::path::Path;
use std::process::Command;

/// Folders whose subject is time: what benches measure, and faults that last.
const ABOUT_TIME: [&str; 2] = ["tests/benches/", "tests/tests/chaos/"];

/// The lines with a pause of a second or more that have no comment in the three lines before them.
fn find_long_pauses(text: &str) -> Vec<usize> {
    let pause = Regex::new(
        r"sleep\((?:std::time::)?Duration::(from_secs\([1-9]|from_millis\([1-9][0-9]?_?[0-9]{3}\b)",
    )
    .unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let is_unexplained = |at: &usize| !lines[at.saturating_sub(3)..*at].iter().any(is_comment);
    (0..lines.len()).filter(|at| pause.is_match(lines[*at])).filter(is_unexplained).map(|at| at + 1).collect()
}

#[test]
fn a_long_pause_of_a_test_says_why() {
    let listed = Command::new("git").args(["ls-files", "-z", "*.rs"]).current_dir(top()).output().unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    let is_test = |file: &&str| {
        let in_folder = Path::new(file).components().any(|part| part.as_os_str() == "tests");
        (in_folder || file.ends_with("/tests.rs"))
            && !ABOUT_TIME.iter().any(|folder| file.starts_with(folder))
    };
    let (mut looked, mut long) = (0, Vec::new());
    for file in files.split_terminator('\0').filter(is_test) {
        // Deleted and not committed yet.
        let Ok(text) = std::fs::read_to_string(top().join(file)) else { continue };
        looked += 1;
        long.extend(find_long_pauses(&text).iter().map(|line| format!("{file}:{line}")));
    }
    assert!(looked > 200, "{looked} files");
    assert!(
        long.is_empty(),
        "wait for the condition, or say above the line why it is a real pause: {long:#?}"
    );
}

#[test]
fn a_long_pause_is_recognised() {
    let text = "PAUSE(Duration::from_secs(1)).await;\nPAUSE(std::time::Duration::from_millis(1_500)).await;\n\
                PAUSE(Duration::from_millis(999)).await;\n// A real pause: the clock is the broker's.\n\
                PAUSE(Duration::from_secs(14)).await;\n";
    assert_eq!(find_long_pauses(&text.replace("PAUSE", "sleep")), [1, 2]);
}
