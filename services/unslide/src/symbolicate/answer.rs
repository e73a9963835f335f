//! One record answered.

use super::input::Record;
use super::library::Library;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use unslide_report::{Element, ReadError, ReadLimits, Report, split, text};
use unslide_symbolicate::{Context, Plan, most_bytes};

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The report with its answers, every other byte as it was
    Json,
    /// A log in Apple's form
    Text,
}

/// A record that waits for its answer.
pub type Job = Record;

/// What comes out for a record.
pub struct Answer {
    /// The bytes to write.
    pub bytes: Vec<u8>,
    /// The line, and what is wrong with it.
    pub problem: Option<(u64, String)>,
}

/// Answers a record. One that cannot be read comes out as it is.
pub fn answer(job: Job, library: &Library, format: Format) -> Answer {
    match job {
        Record::Filler(bytes) => {
            // Between logs a blank line has no meaning.
            let bytes =
                if format == Format::Text && bytes.trim_ascii().is_empty() { Vec::new() } else { bytes };
            Answer { bytes, problem: None }
        }
        Record::TooLong { line, bytes } => {
            let limit = ReadLimits::default().max_bytes;
            let problem = ReadError::TooLarge { bytes: bytes.len(), limit };
            Answer { bytes, problem: Some((line, describe(&problem))) }
        }
        Record::Report { line, bytes, ending } => {
            let answered = catch_unwind(AssertUnwindSafe(|| record(&bytes, library, format)))
                .unwrap_or_else(|_| Err("symbolication failed, please report this".to_owned()));
            match answered {
                Ok(mut answered) => {
                    if format == Format::Json {
                        answered.extend_from_slice(&ending);
                    }
                    Answer { bytes: answered, problem: None }
                }
                Err(problem) => Answer { bytes: [bytes, ending].concat(), problem: Some((line, problem)) },
            }
        }
    }
}

/// True where the first thing behind a byte order mark is an array.
pub fn is_array(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start().first() == Some(&b'[')
}

/// A report, or an array of reports as the HTTP sink of the crash handler sends them.
fn record(bytes: &[u8], library: &Library, format: Format) -> Result<Vec<u8>, String> {
    let limits = ReadLimits::default();
    if !is_array(bytes) {
        return report(bytes, library, format, usize::MAX).map_err(|error| describe(&error));
    }
    let elements = split(bytes, &limits).map_err(|error| describe(&error))?;
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let mut copied = 0;
    // The reports of an array have together what one of their size would have.
    let mut room = most_bytes(bytes.len());
    for element in elements {
        match (element, format) {
            (Element::Report(element), _) => {
                let answered = report(element, library, format, room).map_err(|error| describe(&error))?;
                room = room.saturating_sub(answered.len());
                if format == Format::Json {
                    // The element is a part of the record, so its offset is that of its first byte.
                    let start = element.as_ptr() as usize - bytes.as_ptr() as usize;
                    out.extend_from_slice(&bytes[copied..start]);
                    copied = start + element.len();
                }
                out.extend_from_slice(&answered);
            }
            // A report that the device has rendered is a log already.
            (Element::Text(rendered), Format::Text) => {
                out.extend_from_slice(with_newline(rendered.decode()).as_bytes());
            }
            (Element::Text(_) | Element::Other { .. }, _) => {}
        }
    }
    if format == Format::Json {
        out.extend_from_slice(&bytes[copied..]);
    }
    Ok(out)
}

/// One report, answered in `room` bytes if its own and the statuses of its frames fit them.
fn report(bytes: &[u8], library: &Library, format: Format, room: usize) -> Result<Vec<u8>, ReadError> {
    let limits = ReadLimits::default();
    let read = Report::read(bytes, &limits)?;
    let context = Context { most_bytes: Some(room), ..Context::default() };
    let enriched = Plan::new(&read).enrich_within(&|id| library.symbols(id), &context);
    match format {
        Format::Json => Ok(enriched.bytes),
        Format::Text => {
            let limits = ReadLimits { max_bytes: usize::MAX, ..limits };
            let log = text::apple_log(&Report::read(&enriched.bytes, &limits)?);
            Ok(with_newline(log.into()).into_bytes())
        }
    }
}

fn with_newline(text: Cow<'_, str>) -> String {
    let mut text = text.into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn describe(error: &ReadError) -> String {
    format!("{}: {error}", error.reason())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::splice;
    use unslide_testkit::macho;

    fn json(bytes: &str) -> Answer {
        let job = Record::Report { line: 7, bytes: bytes.into(), ending: b"\r\n".to_vec() };
        answer(job, &Library::default(), Format::Json)
    }

    #[test]
    fn what_is_no_report_comes_out_as_it_is() {
        for bad in ["{\"a\":", "oops", "17", "[{},]", "\"text\""] {
            let answer = json(bad);
            assert_eq!(String::from_utf8(answer.bytes).unwrap(), format!("{bad}\r\n"));
            assert_eq!(answer.problem.unwrap().0, 7);
        }
    }

    #[test]
    fn the_reports_of_an_array_are_answered_where_they_are() {
        let answer = json("[ {\"a\":1} , \"text\", 3,{} ]");
        assert!(answer.problem.is_none());
        let text = String::from_utf8(answer.bytes).unwrap();
        assert!(text.starts_with("[ {\"a\":1,\"symbolication\":{\"version\":1,"), "{text}");
        assert!(text.contains("} , \"text\", 3,{\"symbolication\":{\"version\":1,"), "{text}");
        assert!(text.ends_with("}} ]\r\n"), "{text}");
        // Behind a byte order mark as well.
        assert!(json("\u{FEFF}[{\"a\":1}]").problem.is_none());
    }

    #[test]
    fn an_answer_is_stripped_to_what_came_in() {
        let input = "{ \"crash\": {} }";
        let answer = json(input);
        let bytes = answer.bytes.strip_suffix(b"\r\n").unwrap();
        assert_eq!(splice::strip(bytes, &ReadLimits::default()).unwrap(), input.as_bytes());
    }

    #[test]
    fn symbols_with_endless_names_make_no_answer_much_larger_than_its_record() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("long"), macho::longest_chain(4_000)).unwrap();
        let (library, _) = Library::search(&[folder.path().to_path_buf()]).unwrap();
        let load = 0x1_0000_0000 + macho::TEXT;
        let frames = format!("{{\"instruction_addr\":{}}}", load + macho::CODE - macho::TEXT + 2);
        let report = format!(
            "{{\"binary_images\":[{{\"image_addr\":{},\"image_size\":4096,\"uuid\":\"{}\",\"name\":\"a\"}}],\
             \"crash\":{{\"threads\":[{{\"crashed\":true,\"backtrace\":{{\"contents\":[{}]}}}}]}}}}",
            load,
            "07".repeat(16),
            [frames.as_str(); 20].join(",")
        );
        let array = format!("[{}]", [report.as_str(); 20].join(","));
        for record in [&report, &array] {
            for format in [Format::Json, Format::Text] {
                let job = Record::Report { line: 1, bytes: record.clone().into(), ending: Vec::new() };
                let answer = answer(job, &library, format);
                assert!(answer.problem.is_none());
                let text = String::from_utf8(answer.bytes).unwrap();
                assert!(text.len() <= most_bytes(record.len()), "{} for {}", text.len(), record.len());
                assert!(
                    format == Format::Text || text.contains("\"symbolicated\":20"),
                    "{}",
                    &text[text.len() - 500..]
                );
            }
        }
    }
}
