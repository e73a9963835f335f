//! One record answered.

use crate::offline::symbolicate::input::{InputRecord, is_array, is_filler};
use crate::offline::symbolicate::library::Library;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use unslide_report::{Element, ReadError, ReadLimits, Report, foreign_format, split, text};
use unslide_symbolicate::grouping::GroupingRules;
use unslide_symbolicate::{Context, ImageOutcome, ImageStatus, Plan, most_bytes};

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// The report with its answers, every other byte as it was
    Json,
    /// A log in Apple's form
    Text,
}

/// What comes out for a record.
#[derive(Default)]
pub struct AnsweredRecord {
    /// The record's line; 0 for what is no record.
    pub line: u64,
    /// The bytes to write.
    pub bytes: Vec<u8>,
    /// What is wrong with the record or its elements.
    pub problems: Vec<String>,
    /// True where the record is a log in Apple's form.
    pub foreign: bool,
    /// The images that frames refer to and whose symbols did not answer.
    pub lacking: Vec<ImageOutcome>,
}

/// Answers a record. One that cannot be read comes out as it is.
pub fn answer(
    job: InputRecord,
    library: &Library,
    rules: &GroupingRules,
    format: OutputFormat,
) -> AnsweredRecord {
    match job {
        InputRecord::Filler(bytes) => {
            // Between logs a blank line has no meaning.
            let blank = format == OutputFormat::Text && bytes.iter().all(is_filler);
            let bytes = if blank { Vec::new() } else { bytes };
            AnsweredRecord { bytes, ..AnsweredRecord::default() }
        }
        InputRecord::TooLong { line, bytes } => {
            let limit = ReadLimits::default().max_bytes;
            let problem = ReadError::TooLarge { bytes: bytes.len(), limit };
            AnsweredRecord { line, bytes, problems: vec![describe(&problem)], ..AnsweredRecord::default() }
        }
        InputRecord::Report { line, bytes, ending } => {
            let mut answer = AnsweredRecord { line, ..AnsweredRecord::default() };
            let answered =
                catch_unwind(AssertUnwindSafe(|| record(&bytes, (library, rules), format, &mut answer)))
                    .unwrap_or_else(|_| Err("symbolication failed, please report this".to_owned()));
            match answered {
                Ok(answered) => {
                    answer.bytes = answered;
                    if format == OutputFormat::Json {
                        answer.bytes.extend_from_slice(&ending);
                    }
                }
                Err(problem) => {
                    answer.foreign = foreign_format(&bytes).is_some();
                    answer.problems = vec![problem];
                    answer.bytes = [bytes, ending].concat();
                }
            }
            answer
        }
    }
}

/// A report, or an array of reports as the HTTP sink of the crash handler sends them. An element that can't
/// be answered is named in `answer` and passed on as it is.
fn record(
    bytes: &[u8],
    known: (&Library, &GroupingRules),
    format: OutputFormat,
    answer: &mut AnsweredRecord,
) -> Result<Vec<u8>, String> {
    let limits = ReadLimits::default();
    if !is_array(bytes) {
        let answered = report(bytes, known, format, usize::MAX, &mut answer.lacking);
        return answered.map_err(|error| named(bytes, &error));
    }
    let elements = split(bytes, &limits).map_err(|error| describe(&error))?;
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let mut copied = 0;
    // The reports of an array have together what one of their size would have.
    let mut room = most_bytes(bytes.len());
    for (number, element) in elements.into_iter().enumerate() {
        let problem = match element {
            Element::Report(element) => match report(element, known, format, room, &mut answer.lacking) {
                Ok(answered) => {
                    room = room.saturating_sub(answered.len());
                    if format == OutputFormat::Json {
                        // The element is a part of the record, so its offset is that of its first byte.
                        let start = element.as_ptr() as usize - bytes.as_ptr() as usize;
                        out.extend_from_slice(&bytes[copied..start]);
                        copied = start + element.len();
                    }
                    out.extend_from_slice(&answered);
                    continue;
                }
                Err(error) => named(element, &error),
            },
            Element::Text(rendered) => {
                if format == OutputFormat::Text {
                    // A report that the device has rendered is a log already.
                    out.extend_from_slice(with_newline(rendered.decode()).as_bytes());
                }
                "not_a_report: a report is an object, this is a string".to_owned()
            }
            Element::Other { found, .. } => format!("not_a_report: a report is an object, this is {found}"),
        };
        answer.problems.push(format!("element {} of the array: {problem}", number + 1));
    }
    if format == OutputFormat::Json {
        out.extend_from_slice(&bytes[copied..]);
    }
    Ok(out)
}

/// One report, answered in `room` bytes if its own and the statuses of its frames fit them. Images without
/// symbols go to `lacking`.
fn report(
    bytes: &[u8],
    (library, rules): (&Library, &GroupingRules),
    format: OutputFormat,
    room: usize,
    lacking: &mut Vec<ImageOutcome>,
) -> Result<Vec<u8>, ReadError> {
    let limits = ReadLimits::default();
    let read = Report::accept(bytes, &limits)?;
    let context = Context { most_bytes: Some(room), rules: Some(rules), ..Context::default() };
    let plan = Plan::new(&read);
    let symbols = library.for_report(&plan.needs());
    let enriched = plan.enrich_within(&|id| symbols.get(id), &context);
    lacking.extend(enriched.images.into_iter().filter(|image| image.status != ImageStatus::Found));
    match format {
        OutputFormat::Json => Ok(enriched.bytes),
        OutputFormat::Text => {
            let log = text::apple_log(&Report::read_stored(&enriched.bytes)?);
            Ok(with_newline(log.into()).into_bytes())
        }
    }
}

/// Why bytes are no report: where they are a log in a known form, that is said.
fn named(bytes: &[u8], error: &ReadError) -> String {
    foreign_format(bytes).map_or_else(|| describe(error), |format| format.to_string())
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

    fn json(bytes: &str) -> AnsweredRecord {
        let job = InputRecord::Report { line: 7, bytes: bytes.into(), ending: b"\r\n".to_vec() };
        answer(job, &Library::default(), &GroupingRules::default(), OutputFormat::Json)
    }

    #[test]
    fn what_is_no_report_comes_out_as_it_is() {
        for bad in ["{\"a\":", "oops", "17", "[{},]", "\"text\"", "{\"a\":1}"] {
            let answer = json(bad);
            assert_eq!(String::from_utf8(answer.bytes).unwrap(), format!("{bad}\r\n"));
            assert_eq!((answer.line, answer.problems.len(), answer.foreign), (7, 1, false));
        }
    }

    #[test]
    fn a_log_in_apples_form_is_called_that() {
        for log in [
            "Incident Identifier: 5A9E\nCrashReporter Key: 1",
            "{\"app_name\":\"Shop\",\"bug_type\":\"309\"}",
        ] {
            let answer = json(log);
            assert!(
                answer.foreign && answer.problems[0].contains("not KSCrash JSON"),
                "{:?}",
                answer.problems
            );
        }
    }

    #[test]
    fn the_reports_of_an_array_are_answered_where_they_are_and_what_is_none_is_named() {
        let answer = json("[ {\"crash\":{\"error\":{}}} , \"text\", 3,{},{\"crash\":{\"threads\":[]}} ]");
        let named = |number: usize, what: &str| answer.problems[number].starts_with(what);
        assert_eq!(answer.problems.len(), 3, "{:?}", answer.problems);
        assert!(named(0, "element 2 of the array: not_a_report: a report is an object, this is a string"));
        assert!(named(1, "element 3 of the array: ") && named(2, "element 4 of the array: "));
        let text = String::from_utf8(answer.bytes).unwrap();
        assert!(text.starts_with("[ {\"crash\":{\"error\":{}},\"symbolication\":{\"version\":1,"), "{text}");
        assert!(
            text.contains("} , \"text\", 3,{},{\"crash\":{\"threads\":[]},\"symbolication\":{"),
            "{text}"
        );
        assert!(text.ends_with("}} ]\r\n"), "{text}");
        // Behind a byte order mark as well.
        assert!(json("\u{FEFF}[{\"crash\":{\"error\":{}}}]").problems.is_empty());
    }

    #[test]
    fn an_answer_is_stripped_to_what_came_in() {
        let input = "{ \"crash\": {\"threads\": []} }";
        let answer = json(input);
        let bytes = answer.bytes.strip_suffix(b"\r\n").unwrap();
        assert_eq!(splice::strip(bytes, &ReadLimits::default()).unwrap(), input.as_bytes());
    }

    /// Proves: bounded-input
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
            for format in [OutputFormat::Json, OutputFormat::Text] {
                let job = InputRecord::Report { line: 1, bytes: record.clone().into(), ending: Vec::new() };
                let answer = answer(job, &library, &GroupingRules::default(), format);
                assert!(answer.problems.is_empty());
                let text = String::from_utf8(answer.bytes).unwrap();
                assert!(text.len() <= most_bytes(record.len()), "{} for {}", text.len(), record.len());
                assert!(
                    format == OutputFormat::Text || text.contains("\"symbolicated\":20"),
                    "{}",
                    &text[text.len() - 500..]
                );
            }
        }
    }
}
