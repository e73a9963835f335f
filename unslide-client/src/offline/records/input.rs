//! Splits bytes into records: the whole input, or each of its lines.
//!
//! Crash handlers write one report over many lines; pipelines send one report a line. If the first line is a
//! report, there is a report a line. The same is true if a later line is a report and the lines together
//! are neither one JSON value nor one document of a reader's format. Otherwise the input is one report, valid or not,
//! if it is not larger than the limit of a report. That limit also bounds memory, for any length of the input or of a
//! line. JSON values in lines of which none is a report have one problem together.

use crate::offline::records::recognition::{check_report, has_report, may_have_report, no_report_problem};
use std::io::{self, BufRead, BufReader, Read};
use unslide_report::reader::ReportReaders;
use unslide_report::{ReadError, ReadLimits, Report, split_record};

/// The bytes with which a text is recognised.
const DOCUMENT_HEAD_BYTES: usize = 4 << 10;

/// A piece of the input. Put one after the other, the pieces are the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputRecord {
    /// Bytes that may be a report, and the white space after it.
    Report {
        /// The number of the line, from 1; 1 for the whole input.
        line: u64,
        bytes: Vec<u8>,
        ending: Vec<u8>,
    },
    /// The beginning of a line that is longer than a report may be.
    TooLong { line: u64, bytes: Vec<u8> },
    /// Bytes that are passed on without a note: blank lines, and the rest of long ones.
    Filler(Vec<u8>),
    /// A report of an array, its number from 1, and the most bytes that its answer may have.
    Element { line: u64, number: usize, bytes: Vec<u8>, room: usize },
    /// The problem of an array or of its element, and the log that this element is. Its bytes are in the
    /// records around it.
    NoReport { line: u64, problem: String, log: Option<String> },
    /// The bytes of an array that belong to no report.
    Between(Vec<u8>),
}

impl InputRecord {
    /// Returns true if it completes a line.
    pub fn ends_line(&self) -> bool {
        match self {
            InputRecord::Report { ending, .. } => ending.contains(&b'\n'),
            InputRecord::TooLong { bytes, .. }
            | InputRecord::Filler(bytes)
            | InputRecord::Element { bytes, .. }
            | InputRecord::Between(bytes) => bytes.ends_with(b"\n"),
            InputRecord::NoReport { .. } => false,
        }
    }
}

/// How the input is read.
#[derive(Debug)]
pub enum InputRecords {
    /// One report; `None` once it was given out.
    Whole(Option<Vec<u8>>),
    Lines {
        line: u64,
        in_long_line: bool,
    },
    /// Lines without any report: their problem, and then their bytes.
    NoReports {
        problem: Option<String>,
        bytes: Option<Vec<u8>>,
    },
}

pub struct Input<R> {
    pub records: InputRecords,
    limit: usize,
    /// The bytes that were read to find out how to split the input.
    ahead: io::Cursor<Vec<u8>>,
    rest: BufReader<R>,
}

impl<R: Read> Input<R> {
    /// Reads far enough to know whether the input is one report.
    ///
    /// # Errors
    /// If reading fails.
    pub fn open(source: R, readers: &ReportReaders) -> io::Result<Input<R>> {
        Input::with_limits(source, readers, ReadLimits::default())
    }

    fn with_limits(source: R, readers: &ReportReaders, limits: ReadLimits) -> io::Result<Input<R>> {
        let mut rest = BufReader::with_capacity(1 << 16, source);
        let mut ahead = Vec::new();
        let mut looked_at = 0;
        let mut is_document = None;
        let records = loop {
            // One more than a report may have shows that it is too long.
            let room = (limits.max_bytes + 1).saturating_sub(ahead.len()) as u64;
            let ended = rest.by_ref().take(room).read_until(b'\n', &mut ahead)? == 0;
            let is_text_head = ahead.len() <= DOCUMENT_HEAD_BYTES && begins_text(&ahead);
            let is_open = is_document.is_none() || is_document == Some(false) && is_text_head;
            if is_open && !ahead.trim_ascii().is_empty() {
                is_document = Some(begins_document(&ahead, readers, &limits));
            }
            if ended {
                break InputRecords::from_whole(
                    &mut ahead,
                    is_document.unwrap_or_default(),
                    readers,
                    &limits,
                );
            }
            // Looking again only at twice the size keeps the work linear.
            if is_document == Some(false) && ahead.len() >= looked_at * 2 {
                looked_at = ahead.len();
                let lines = match is_one_line(&ahead) {
                    true => has_report(ahead.trim_ascii(), readers, &limits),
                    // The lines of an array may be reports, too.
                    false => {
                        !is_array(&ahead)
                            && !is_value(&ahead, &limits)
                            && readers.has_report_lines(&ahead, &limits)
                    }
                };
                if lines {
                    break InputRecords::lines();
                }
            }
        };
        Ok(Input { records, limit: limits.max_bytes, ahead: io::Cursor::new(ahead), rest })
    }

    fn next_record(&mut self) -> io::Result<Option<InputRecord>> {
        let limit = self.limit;
        match &mut self.records {
            InputRecords::Whole(bytes) => Ok(bytes.take().map(|bytes| trim_filler(1, bytes))),
            InputRecords::NoReports { problem, bytes } => Ok(match problem.take() {
                Some(problem) => Some(InputRecord::NoReport { line: 1, problem, log: None }),
                None => bytes.take().map(InputRecord::Filler),
            }),
            InputRecords::Lines { line, in_long_line } => {
                let mut bytes = Vec::new();
                let mut both = self.ahead.by_ref().chain(self.rest.by_ref()).take(limit as u64 + 1);
                both.read_until(b'\n', &mut bytes)?;
                if bytes.is_empty() {
                    return Ok(None);
                }
                let ends = bytes.ends_with(b"\n");
                let long = bytes.len() > limit && !ends;
                let continues = std::mem::replace(in_long_line, long || *in_long_line && !ends);
                if !continues {
                    *line += 1;
                }
                Ok(Some(match (continues, long) {
                    (true, _) => InputRecord::Filler(bytes),
                    (false, true) => InputRecord::TooLong { line: *line, bytes },
                    (false, false) => trim_filler(*line, bytes),
                }))
            }
        }
    }
}

impl InputRecords {
    fn lines() -> InputRecords {
        InputRecords::Lines { line: 0, in_long_line: false }
    }

    /// Decides how an input is read, once its end or the limit of a report is reached. Takes its bytes if they are not lines.
    fn from_whole(
        ahead: &mut Vec<u8>,
        is_document: bool,
        readers: &ReportReaders,
        limits: &ReadLimits,
    ) -> InputRecords {
        let is_of_lines = || readers.has_report_lines(ahead, limits);
        let is_lines = if ahead.len() > limits.max_bytes {
            true
        } else if is_document {
            is_of_lines() && readers.translate(ahead, limits).is_err()
        } else {
            is_one_line(ahead) || !is_value(ahead, limits) && is_of_lines()
        };
        if is_lines {
            return InputRecords::lines();
        }
        let lines = || ahead.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(is_filler));
        let first = lines().next().unwrap_or_default();
        if is_document || is_value(ahead, limits) || !is_value(first, limits) {
            return InputRecords::Whole(Some(std::mem::take(ahead)));
        }
        if lines().any(|line| may_have_report(line.trim_ascii(), readers, limits)) {
            return InputRecords::lines();
        }
        let problem = check_report(first, readers, limits).err().map(|error| describe_error(&error));
        let problem = no_report_problem(&problem.unwrap_or_default(), lines().count() - 1);
        InputRecords::NoReports { problem: Some(problem), bytes: Some(std::mem::take(ahead)) }
    }
}

impl<R: Read> Iterator for Input<R> {
    type Item = io::Result<InputRecord>;

    fn next(&mut self) -> Option<io::Result<InputRecord>> {
        self.next_record().transpose()
    }
}

/// Returns true for white space, and for the NULs at the end of files that were allocated before they were
/// filled.
pub fn is_filler(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0
}

/// Describes the problem of a record, in one word and in a sentence.
pub fn describe_error(error: &ReadError) -> String {
    format!("{}: {error}", error.reason())
}

/// Cuts the filler behind a report off, so that it is not the report's.
fn trim_filler(line: u64, mut bytes: Vec<u8>) -> InputRecord {
    let end = bytes.iter().rposition(|byte| !is_filler(byte)).map_or(0, |last| last + 1);
    if end == 0 {
        return InputRecord::Filler(bytes);
    }
    let ending = bytes.split_off(end);
    InputRecord::Report { line, bytes, ending }
}

/// Returns true if the first value after a byte order mark is an array.
pub fn is_array(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start().first() == Some(&b'[')
}

/// Returns true if the first lines begin a document that a reader takes as a whole: a text, or no report of its own.
fn begins_document(lines: &[u8], readers: &ReportReaders, limits: &ReadLimits) -> bool {
    readers.find(lines).is_some() && (begins_text(lines) || readers.translate(lines, limits).is_err())
}

/// Returns true if the input is no JSON.
fn begins_text(bytes: &[u8]) -> bool {
    let start = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    !matches!(start.first(), None | Some(b'{' | b'[' | b'"'))
}

fn is_one_line(bytes: &[u8]) -> bool {
    !bytes.trim_ascii().contains(&b'\n')
}

/// Returns true if the bytes are one JSON value.
fn is_value(bytes: &[u8], limits: &ReadLimits) -> bool {
    if is_array(bytes) {
        return split_record(bytes, limits).is_ok();
    }
    matches!(Report::read(bytes, limits), Ok(_) | Err(ReadError::NotAReport { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "{\"crash\":{\"threads\":[]}}";

    fn records(input: &[u8], limit: usize) -> Vec<InputRecord> {
        let limits = ReadLimits { max_bytes: limit, ..ReadLimits::default() };
        let records: Vec<InputRecord> = Input::with_limits(input, &ReportReaders::default(), limits)
            .unwrap()
            .collect::<io::Result<_>>()
            .unwrap();
        let pieces = records.iter().map(|record| match record {
            InputRecord::Report { bytes, ending, .. } => [&bytes[..], ending].concat(),
            InputRecord::TooLong { bytes, .. } | InputRecord::Filler(bytes) => bytes.clone(),
            InputRecord::NoReport { .. } => Vec::new(),
            other => panic!("{other:?} is not read from a file"),
        });
        assert_eq!(pieces.collect::<Vec<_>>().concat(), input, "nothing is lost");
        records
    }

    fn line(line: u64, bytes: &str, ending: &str) -> InputRecord {
        InputRecord::Report { line, bytes: bytes.into(), ending: ending.into() }
    }

    #[test]
    fn a_report_over_many_lines_is_one_record() {
        for text in ["{\n  \"a\": 1\n}", "\n{\n}", "[\n{\"a\":\n1},{}\n]"] {
            for ending in ["", "\n", "\n\n \n"] {
                assert_eq!(records(format!("{text}{ending}").as_bytes(), 1 << 20), [line(1, text, ending)]);
            }
        }
    }

    #[test]
    fn reports_in_lines_are_a_record_each() {
        assert_eq!(
            records(format!("{REPORT}\r\n\n{{}}\n{REPORT}").as_bytes(), 1 << 20),
            [
                line(1, REPORT, "\r\n"),
                InputRecord::Filler(b"\n".to_vec()),
                line(3, "{}", "\n"),
                line(4, REPORT, "")
            ]
        );
        assert_eq!(records(b"{\"a\":1}\n", 1 << 20), [line(1, "{\"a\":1}", "\n")]);
        assert_eq!(records(b"", 1 << 20), []);
        assert_eq!(records(b"\n\n", 1 << 20).len(), 2);
    }

    #[test]
    fn nuls_behind_a_newline_are_no_report() {
        let one = [line(1, REPORT, "\n"), InputRecord::Filler(b"\0\0\0".to_vec())];
        assert_eq!(records(format!("{REPORT}\n\0\0\0").as_bytes(), 1 << 20), one);
        assert_eq!(records(b"{}\n\0\0\0", 1 << 20), [line(1, "{}", "\n\0\0\0")]);
        assert_eq!(records(b"{\n}\n\0\0", 1 << 20), [line(1, "{\n}", "\n\0\0")]);
        let lines = records(format!("{REPORT}\n{{}}\n\0\n{{}}\n\0").as_bytes(), 1 << 20);
        assert_eq!(lines.iter().filter(|record| matches!(record, InputRecord::Report { .. })).count(), 3);
    }

    #[test]
    fn a_bad_first_line_does_not_make_the_lines_one_report() {
        let array = format!("[{REPORT},\n7");
        for bad in [
            "oops",
            "{\"a\":",
            "{\"a\":[1,",
            "}",
            "\"text\"",
            "17",
            "{}}",
            "{\"a\":1}",
            "[]",
            "[1,2]",
            array.as_str(),
        ] {
            let input = format!("{bad}\n{REPORT}\n{REPORT}\n");
            let count = bad.lines().count() as u64;
            let mut expected: Vec<InputRecord> =
                (1..).zip(bad.lines()).map(|(at, bad)| line(at, bad, "\n")).collect();
            expected.extend([line(count + 1, REPORT, "\n"), line(count + 2, REPORT, "\n")]);
            assert_eq!(records(input.as_bytes(), 1 << 20), expected, "{bad}");
        }
    }

    #[test]
    fn lines_behind_a_document_that_a_reader_cannot_read_are_read() {
        let readers = crate::features::read_report_readers();
        let count = |input: &str| {
            let input = Input::open(io::Cursor::new(input.to_owned()), &readers).unwrap();
            input.map(|record| u32::from(matches!(record.unwrap(), InputRecord::Report { .. }))).sum::<u32>()
        };
        let empty = "{\"timeStampEnd\":\"2026-07-11 03:59:00\",\"crashDiagnostics\":[]}";
        let without_frames =
            "{\"callStackTree\":{\"callStacks\":[]},\"diagnosticMetaData\":{\"bundleIdentifier\":\"a\"}}";
        let wrapped = "{\"text\":\"Incident Identifier: 1\\nProcess: Shop [1]\\n\"}";
        let cut = "Incident Identifier: 5A9E";
        for first in [empty, without_frames, wrapped, cut] {
            assert_eq!(count(&format!("{first}\n{REPORT}\n{REPORT}\n")), 3, "{first}");
            assert_eq!(count(&format!("{first}\n")), 1, "{first}");
        }
        // A log of two JSON texts is one report.
        let header = "{\"bug_type\":\"309\",\"app_name\":\"Shop\"}";
        assert_eq!(count(&format!("{header}\n{{\"procName\":\"Shop\",\"threads\":[]}}\n")), 1);
    }

    #[test]
    fn an_array_over_lines_is_one_record() {
        let array = format!("[\n{REPORT},\n{REPORT}\n,\n{REPORT}\n]");
        assert_eq!(records(array.as_bytes(), 1 << 20), [line(1, &array, "")]);
    }

    #[test]
    fn lines_without_any_report_have_one_problem() {
        for input in
            ["{\"level\":\"info\"}\n\n{}\n17\n", "17\n18\n19", "{\"a\":1}\r\noops\r\n{}\r\n", "[1]\n[2]\n{}"]
        {
            let found = records(input.as_bytes(), 1 << 20);
            let [InputRecord::NoReport { line: 1, problem, .. }, InputRecord::Filler(_)] = &found[..] else {
                panic!("{input}: {found:?}")
            };
            assert!(problem.starts_with("not_a_report: "), "{problem}");
            assert!(problem.ends_with("; this is no file of reports: 2 more could not be read"), "{problem}");
        }
        // A damaged report among them is named by its line.
        assert_eq!(records(b"{\"a\":1}\n{\"crash\":{\n{}\n", 1 << 20).len(), 3);
    }

    #[test]
    fn a_broken_report_over_many_lines_is_one_record() {
        for text in ["{\n\"a\":1\n}\n{\n\"b\":2\n}", "{\n \"a\": 1,\n}", "{\n \"a\": [\n  {}", "oops\nno"] {
            assert_eq!(records(text.as_bytes(), 1 << 20), [line(1, text, "")]);
        }
    }

    #[test]
    fn lines_longer_than_a_report_are_passed_on_in_pieces() {
        let long = "x".repeat(25);
        let found = records(format!("{{}}\n{long}\n{{\"a\":1}}\n").as_bytes(), 10);
        assert_eq!(found[0], line(1, "{}", "\n"));
        assert_eq!(found[1], InputRecord::TooLong { line: 2, bytes: b"x".repeat(11) });
        assert!(found[2..found.len() - 1].iter().all(|record| matches!(record, InputRecord::Filler(_))));
        assert_eq!(*found.last().unwrap(), line(3, "{\"a\":1}", "\n"));
        // Neither is an input that never becomes one value.
        let endless = records(format!("{{\"a\":[\n{}", "1,\n".repeat(20)).as_bytes(), 30);
        assert_eq!(endless.len(), 21);
    }

    #[test]
    fn the_first_report_of_a_pipe_does_not_wait_for_the_second() {
        /// A pipe that has one line and would block for the next.
        struct Pipe(Option<&'static [u8]>);
        impl Read for Pipe {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let line = self.0.take().ok_or(io::ErrorKind::WouldBlock)?;
                into[..line.len()].copy_from_slice(line);
                Ok(line.len())
            }
        }
        let pipe = Pipe(Some(b"{\"crash\":{\"threads\":[]}}\n"));
        let mut input = Input::open(pipe, &ReportReaders::default()).unwrap();
        assert_eq!(input.next().unwrap().unwrap(), line(1, REPORT, "\n"));
    }
}
