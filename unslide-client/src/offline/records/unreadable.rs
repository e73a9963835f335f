//! The records that cannot be read, for people.

use crate::offline::records::AnsweredRecord;
use crate::offline::records::files::RecordSource;
use std::path::PathBuf;
use unslide_cli::note;

/// Names each record that cannot be read.
pub struct UnreadableRecords<'f> {
    files: &'f [PathBuf],
    outcome: &'static str,
    any: bool,
    /// The number of a file that begins as a log in Apple's form: the following records are the rest of it.
    foreign: Option<usize>,
}

impl<'f> UnreadableRecords<'f> {
    /// Starts with no unreadable record. `files` are the sources of the records.
    pub fn new(files: &'f [PathBuf], outcome: &'static str) -> UnreadableRecords<'f> {
        UnreadableRecords { files, outcome, any: false, foreign: None }
    }

    /// Returns true if there was one.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Names the record if it cannot be read.
    pub fn print_unreadable<N>(&mut self, answer: &AnsweredRecord<N>) {
        if let Some(text) = self.describe_record(answer) {
            note!("{text}");
        }
    }

    fn describe_record<N>(&mut self, answer: &AnsweredRecord<N>) -> Option<String> {
        self.any |= answer.problem.is_some();
        let RecordSource { file, is_whole } = answer.source;
        if self.foreign == Some(file) {
            return None;
        }
        let is_foreign = answer.foreign && answer.line == 1;
        self.foreign = is_foreign.then_some(file);
        let problem = answer.problem.as_ref()?;
        let of = match self.files {
            [only] if only.as_os_str() == "-" => String::new(),
            files => format!("{}: ", files[file].display()),
        };
        let line = match is_whole || is_foreign {
            true => String::new(),
            false => format!("line {}: ", answer.line),
        };
        Some(format!("{of}{line}{problem}; {}", self.outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(file: usize, line: u64, is_whole: bool) -> AnsweredRecord<()> {
        let source = RecordSource { file, is_whole };
        AnsweredRecord { source, ..AnsweredRecord::unreadable(line, "no report".to_owned()) }
    }

    #[test]
    fn a_record_is_named_by_its_file_and_line() {
        let named = |files: &[&str], answer: &AnsweredRecord<()>| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            UnreadableRecords::new(&files, "passed on").describe_record(answer).unwrap()
        };
        assert_eq!(named(&["-"], &bad(0, 3, false)), "line 3: no report; passed on");
        assert_eq!(named(&["a"], &bad(0, 3, false)), "a: line 3: no report; passed on");
        assert_eq!(named(&["a", "-"], &bad(1, 3, false)), "-: line 3: no report; passed on");
        assert_eq!(named(&["a", "b"], &bad(1, 1, true)), "b: no report; passed on");
    }

    #[test]
    fn the_lines_of_a_log_in_apples_form_are_named_once() {
        let files = [PathBuf::from("a"), PathBuf::from("b")];
        let mut records = UnreadableRecords::new(&files, "passed on");
        let answers =
            [AnsweredRecord { foreign: true, ..bad(0, 1, false) }, bad(0, 2, false), bad(1, 1, false)];
        let named: Vec<bool> =
            answers.iter().map(|answer| records.describe_record(answer).is_some()).collect();
        assert_eq!(named, [true, false, true]);
        assert!(records.any());
    }
}
