//! Splits bytes into records: the whole input, or each of its lines.
//!
//! Crash handlers write one report over many lines; pipelines send one report a line. If the first line is a
//! JSON value, there is a report a line. The same is true if a later line is a report and the lines together
//! are not one JSON value. Otherwise the input is one report, valid or not, if it is not larger than the
//! limit of a report. That limit also bounds memory, for any length of the input or of a line.

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
                let is_document = is_document.unwrap_or_default();
                let whole = ahead.len() <= limits.max_bytes
                    && (is_document
                        || !is_one_line(&ahead)
                            && (is_value(&ahead, &limits) || !has_report_in_a_line(&ahead, &limits)));
                break if whole {
                    InputRecords::Whole(Some(std::mem::take(&mut ahead)))
                } else {
                    InputRecords::lines()
                };
            }
            // Looking again only at twice the size keeps the work linear.
            if is_document == Some(false) && ahead.len() >= looked_at * 2 {
                looked_at = ahead.len();
                let lines = match is_one_line(&ahead) {
                    true => is_value(&ahead, &limits),
                    false => !is_value(&ahead, &limits) && has_report_in_a_line(&ahead, &limits),
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

/// Returns true if a line that is not indented is a whole report. No line of a report over many lines is one,
/// even if that report is broken.
fn has_report_in_a_line(bytes: &[u8], limits: &ReadLimits) -> bool {
    bytes.split(|b| *b == b'\n').any(|line| {
        line.starts_with(b"{") && line.ends_with(b"}") | line.ends_with(b"}\r") && is_value(line, limits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(input: &[u8], limit: usize) -> Vec<InputRecord> {
        let limits = ReadLimits { max_bytes: limit, ..ReadLimits::default() };
        let records: Vec<InputRecord> = Input::with_limits(input, &ReportReaders::default(), limits)
            .unwrap()
            .collect::<io::Result<_>>()
            .unwrap();
        let pieces = records.iter().map(|record| match record {
            InputRecord::Report { bytes, ending, .. } => [&bytes[..], ending].concat(),
            InputRecord::TooLong { bytes, .. } | InputRecord::Filler(bytes) => bytes.clone(),
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
            records(b"{\"a\":1}\r\n\n{}\n{\"b\":2}", 1 << 20),
            [
                line(1, "{\"a\":1}", "\r\n"),
                InputRecord::Filler(b"\n".to_vec()),
                line(3, "{}", "\n"),
                line(4, "{\"b\":2}", "")
            ]
        );
        assert_eq!(records(b"{\"a\":1}\n", 1 << 20), [line(1, "{\"a\":1}", "\n")]);
        assert_eq!(records(b"", 1 << 20), []);
        assert_eq!(records(b"\n\n", 1 << 20).len(), 2);
    }

    #[test]
    fn nuls_behind_a_newline_are_no_report() {
        let one = [line(1, "{\"a\":1}", "\n"), InputRecord::Filler(b"\0\0\0".to_vec())];
        assert_eq!(records(b"{\"a\":1}\n\0\0\0", 1 << 20), one);
        assert_eq!(records(b"{\n}\n\0\0", 1 << 20), [line(1, "{\n}", "\n\0\0")]);
        let lines = records(b"{}\n{}\n\0\n{}\n\0", 1 << 20);
        assert_eq!(lines.iter().filter(|record| matches!(record, InputRecord::Report { .. })).count(), 3);
    }

    #[test]
    fn a_bad_first_line_does_not_make_the_lines_one_report() {
        for bad in ["oops", "{\"a\":", "{\"a\":[1,", "}", "\"text\"", "17", "{}}"] {
            let input = format!("{bad}\n{{\"a\":1}}\n{{\"b\":2}}\n");
            let expected = [line(1, bad, "\n"), line(2, "{\"a\":1}", "\n"), line(3, "{\"b\":2}", "\n")];
            assert_eq!(records(input.as_bytes(), 1 << 20), expected, "{bad}");
        }
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
        let mut input = Input::open(Pipe(Some(b"{\"a\":1}\n")), &ReportReaders::default()).unwrap();
        assert_eq!(input.next().unwrap().unwrap(), line(1, "{\"a\":1}", "\n"));
    }
}
