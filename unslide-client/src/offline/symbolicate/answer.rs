//! Symbolicates one record of the input.

use crate::offline::records::input::{InputRecord, is_filler};
use crate::offline::records::{AnsweredRecord, answer_report, element_problem};
use crate::offline::symbolicate::facts::{facts, refused_facts};
use std::borrow::Cow;
use unslide_cli::symbols::LackedByReport;
use unslide_cli::symbols::{Library, ReportDerivatives};
use unslide_report::markdown::MarkdownStyle;
use unslide_report::reader::ReportReaders;
use unslide_report::{ReadError, ReadLimits, Report, foreign_format, markdown, text};
use unslide_symbolicate::grouping::GroupingRules;
use unslide_symbolicate::{Analysis, Context, Plan};

/// The form in which answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// The report with its answers in its own form, every other byte unchanged
    Json,
    /// A log in Apple's form
    Text,
    /// A description for an issue, in which texts of devices are quoted
    Markdown,
    /// One JSON object a line about each report, without symbols
    Facts,
}

/// An answer, and the missing parts of its report.
type SymbolicatedRecord = AnsweredRecord<LackedByReport>;

/// The readers, symbols, rules and analyses by which records are answered, and the form of the answers.
#[derive(Clone, Copy)]
pub struct RecordAnswering<'r> {
    pub readers: &'r ReportReaders,
    pub library: &'r Library,
    pub rules: &'r GroupingRules,
    pub analyses: &'r [Analysis],
    pub format: OutputFormat,
    /// True names the evidence of each sentence of Markdown.
    pub names_evidence: bool,
}

impl RecordAnswering<'_> {
    /// Answers a record. Returns one that cannot be read unchanged.
    pub fn answer_record(&self, job: InputRecord) -> SymbolicatedRecord {
        let format = self.format;
        let answered = |bytes: &[u8], room, lacking: &mut LackedByReport| {
            answer_report(bytes, self.readers, || self.enrich_report(bytes, room, lacking))
        };
        match job {
            InputRecord::Filler(bytes) => {
                let is_passed_on = match format {
                    OutputFormat::Json => true,
                    // Between logs a blank line has no meaning.
                    OutputFormat::Text => !bytes.iter().all(is_filler),
                    OutputFormat::Markdown | OutputFormat::Facts => false,
                };
                let bytes = if is_passed_on { bytes } else { Vec::new() };
                AnsweredRecord { bytes, ..AnsweredRecord::default() }
            }
            InputRecord::TooLong { line, bytes } => {
                let answer = AnsweredRecord::too_long(line, bytes.len());
                let bytes = match format {
                    OutputFormat::Json | OutputFormat::Text => bytes,
                    OutputFormat::Markdown => Vec::new(),
                    OutputFormat::Facts => refused_facts(answer.problem.as_deref()),
                };
                AnsweredRecord { bytes, ..answer }
            }
            InputRecord::Between(bytes) => {
                let bytes = if format == OutputFormat::Json { bytes } else { Vec::new() };
                AnsweredRecord { bytes, ..AnsweredRecord::default() }
            }
            InputRecord::NoReport { line, problem, log } => {
                let log = log.filter(|_| format == OutputFormat::Text).unwrap_or_default();
                let bytes = match format {
                    OutputFormat::Facts => refused_facts(Some(&problem)),
                    _ if log.is_empty() => Vec::new(),
                    _ => with_newline(log.into()).into_bytes(),
                };
                AnsweredRecord { bytes, ..AnsweredRecord::unreadable(line, problem) }
            }
            InputRecord::Element { line, number, bytes, room } => {
                let mut answer = AnsweredRecord { line, ..AnsweredRecord::default() };
                match answered(&bytes, room, &mut answer.noticed) {
                    Ok(answered) => answer.bytes = answered,
                    Err(problem) => {
                        answer.problem = Some(element_problem(number, &problem));
                        answer.bytes = match format {
                            OutputFormat::Json => bytes,
                            OutputFormat::Text | OutputFormat::Markdown => Vec::new(),
                            OutputFormat::Facts => refused_facts(answer.problem.as_deref()),
                        };
                    }
                }
                answer
            }
            InputRecord::Report { line, bytes, ending } => {
                let mut answer = AnsweredRecord { line, ..AnsweredRecord::default() };
                match answered(&bytes, usize::MAX, &mut answer.noticed) {
                    Ok(answered) => {
                        answer.bytes = answered;
                        if format == OutputFormat::Json {
                            answer.bytes.extend_from_slice(&ending);
                        }
                    }
                    Err(problem) => {
                        answer.foreign =
                            self.readers.find(&bytes).is_none() && foreign_format(&bytes).is_some();
                        answer.problem = Some(problem);
                        answer.bytes = match format {
                            OutputFormat::Facts => refused_facts(answer.problem.as_deref()),
                            OutputFormat::Json | OutputFormat::Text => [bytes, ending].concat(),
                            // Texts of devices are in it only as quotations.
                            OutputFormat::Markdown => Vec::new(),
                        };
                    }
                }
                answer
            }
        }
    }

    /// Enriches one report, in `room` bytes if its own and the statuses of its frames fit them. Its missing parts
    /// go to `lacking`.
    fn enrich_report(
        &self,
        bytes: &[u8],
        room: usize,
        lacking: &mut LackedByReport,
    ) -> Result<Vec<u8>, ReadError> {
        let limits = ReadLimits::default();
        let document = self.readers.open(bytes, &limits)?;
        let read = Report::read_event(document.json(), &limits)?;
        if self.format == OutputFormat::Facts {
            return Ok(with_newline(facts(&read).into()).into_bytes());
        }
        let plan = Plan::new(&read);
        let derivatives = ReportDerivatives::find(self.library, &plan, self.analyses);
        let context = Context {
            most_bytes: Some(room),
            rules: Some(self.rules),
            analyses: self.analyses,
            derived: &derivatives.list(),
            ..Context::default()
        };
        let symbols = self.library.for_report(&plan.list_needs());
        let enriched = plan.enrich_within(&|id| symbols.get(id), &context);
        lacking.add_enriched(&enriched, &read, document.json());
        if self.format == OutputFormat::Json {
            return document.write(enriched.bytes);
        }
        let report = Report::read_stored(&enriched.bytes)?;
        let written = match self.format {
            OutputFormat::Markdown => {
                let style = if self.names_evidence { MarkdownStyle::Cited } else { MarkdownStyle::Plain };
                markdown::markdown_report(&report, style)
            }
            OutputFormat::Json | OutputFormat::Facts | OutputFormat::Text => text::apple_log(&report),
        };
        Ok(with_newline(written.into()).into_bytes())
    }
}

fn with_newline(text: Cow<'_, str>) -> String {
    let mut text = text.into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::records::elements::split_elements;
    use std::sync::Arc;
    use unslide_model::DebugId;
    use unslide_report::splice;
    use unslide_symbolicate::object::build_symcache;
    use unslide_symbolicate::symcache::SymCache;
    use unslide_symbolicate::{ImageSymbols, most_bytes};
    use unslide_testkit::macho;

    fn answer_record(job: InputRecord, library: &Library, format: OutputFormat) -> SymbolicatedRecord {
        let (readers, rules) = (ReportReaders::default(), GroupingRules::default());
        let (readers, rules, analyses) = (&readers, &rules, &[]);
        RecordAnswering { readers, library, rules, analyses, format, names_evidence: true }.answer_record(job)
    }

    fn json(bytes: &str) -> SymbolicatedRecord {
        let job = InputRecord::Report { line: 7, bytes: bytes.into(), ending: b"\r\n".to_vec() };
        answer_record(job, &Library::default(), OutputFormat::Json)
    }

    /// The bytes of a record or of the elements that it is, and what is wrong with them.
    fn answers(bytes: &str, library: &Library, format: OutputFormat) -> (String, Vec<String>) {
        let record = InputRecord::Report { line: 7, bytes: bytes.into(), ending: b"\r\n".to_vec() };
        let (mut out, mut problems) = (Vec::new(), Vec::new());
        for job in split_elements(record, &ReportReaders::default()) {
            let answer = answer_record(job, library, format);
            out.extend(answer.bytes);
            problems.extend(answer.problem);
        }
        (String::from_utf8(out).unwrap(), problems)
    }

    #[test]
    fn what_is_no_report_comes_out_as_it_is() {
        for bad in ["{\"a\":", "oops", "17", "[{},]", "\"text\"", "{\"a\":1}"] {
            let (text, problems) = answers(bad, &Library::default(), OutputFormat::Json);
            assert_eq!((text, problems.len()), (format!("{bad}\r\n"), 1));
        }
        assert!(!json("oops").foreign);
    }

    #[test]
    fn a_log_in_apples_form_is_called_that() {
        for log in [
            "Incident Identifier: 5A9E\nCrashReporter Key: 1",
            "{\"app_name\":\"Shop\",\"bug_type\":\"309\"}",
        ] {
            let answer = json(log);
            assert!(
                answer.foreign && answer.problem.as_ref().unwrap().contains("not KSCrash JSON"),
                "{:?}",
                answer.problem
            );
        }
    }

    #[test]
    fn the_reports_of_an_array_are_answered_where_they_are_and_what_is_none_is_named() {
        let library = Library::default();
        let array = "[ {\"crash\":{\"error\":{}}} , \"text\", 3,{},{\"crash\":{\"threads\":[]}} ]";
        let (text, problems) = answers(array, &library, OutputFormat::Json);
        let named = |number: usize, what: &str| problems[number].starts_with(what);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(named(0, "element 2 of the array: not_a_report: a report is an object, this is a string"));
        assert!(named(1, "element 3 of the array: ") && named(2, "element 4 of the array: "));
        assert!(text.starts_with("[ {\"crash\":{\"error\":{}},\"symbolication\":{\"version\":1,"), "{text}");
        assert!(
            text.contains("} , \"text\", 3,{},{\"crash\":{\"threads\":[]},\"symbolication\":{"),
            "{text}"
        );
        assert!(text.ends_with("}} ]\r\n"), "{text}");
        // Behind a byte order mark as well.
        let marked = "\u{FEFF}[{\"crash\":{\"error\":{}}}]";
        assert!(answers(marked, &library, OutputFormat::Json).1.is_empty());
        let (log, problems) = answers(array, &library, OutputFormat::Text);
        let is_bracket = |line: &str| line.starts_with('[') || line.ends_with(" ]");
        assert!(problems.len() == 3 && log.contains("text\n") && !log.lines().any(is_bracket), "{log}");
    }

    #[test]
    fn markdown_describes_each_report_and_passes_no_other_bytes_on() {
        let library = Library::default();
        let report = "{\"crash\":{\"error\":{\"reason\":\"a\\n# b\"},\"threads\":[]}}";
        let (text, problems) = answers(report, &library, OutputFormat::Markdown);
        assert!(problems.is_empty() && text.starts_with("# `a # b`\n") && text.ends_with('\n'), "{text}");
        assert!(
            text.contains("- Reason: `a\\n# b` [report ") && text.contains("Square brackets name"),
            "{text}"
        );
        let (text, problems) = answers("# no report", &library, OutputFormat::Markdown);
        assert_eq!((text.as_str(), problems.len()), ("", 1));
    }

    #[test]
    fn an_answer_is_stripped_to_what_came_in() {
        let input = "{ \"crash\": {\"threads\": []} }";
        let answer = json(input);
        let bytes = answer.bytes.strip_suffix(b"\r\n").unwrap();
        assert_eq!(splice::strip_additions(bytes, &ReadLimits::default()).unwrap(), input.as_bytes());
    }

    /// Proves: bounded-input
    #[test]
    fn symbols_with_endless_names_make_no_answer_much_larger_than_its_record() {
        let built = build_symcache(&macho::longest_chain(4_000)).unwrap();
        let symbols = ImageSymbols::from_symcache(Arc::new(SymCache::parse(built.symcache).unwrap()));
        let library = Library::with_built([(DebugId([7; 16]), symbols)]);
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
                let (text, problems) = answers(record, &library, format);
                assert!(problems.is_empty());
                assert!(text.len() <= most_bytes(record.len()), "{} for {}", text.len(), record.len());
                assert!(
                    format == OutputFormat::Text || text.contains("\"symbolicated\":20"),
                    "{}",
                    text.get(text.len() - 500..).unwrap_or_default()
                );
            }
        }
    }
}
