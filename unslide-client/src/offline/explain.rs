//! `unslide explain`: why a frame has the answer that it has.

mod text;

use crate::features;
use crate::offline::records::input::InputRecord;
use crate::offline::records::{
    AnsweredRecord, InputFiles, RecordHandling, answer_files, answer_report, element_problem,
};
use crate::online::groups::rules::read_rules;
use crate::prelude::*;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use text::{Noticed, explanation_text};
use unslide_cli::json_text;
use unslide_cli::symbols::{BuildArguments, Library, ReportDerivatives};
use unslide_model::DebugId;
use unslide_report::{ReadLimits, Report, foreign_format};
use unslide_symbolicate::{Plan, explain_with_derived};

/// Arguments of `unslide explain`: the reports and their symbols.
#[derive(Args)]
#[command(after_help = "\
For a report at the API the key needs the scope reports:read.

Examples:
  unslide explain 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide explain --thread 4 --frame 2 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide explain --symbols MyApp.xcarchive report.json
  unslide explain --symbols dsyms/ --variables report.json
  unslide explain --symbols MyApp.app.dSYM --binary MyApp.app report.json
  unslide explain --symbols dsyms/ --json reports/*.json > explanations.ndjson
  unslide explain --symbols dsyms/ < reports.ndjson")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// The id of one report at the API, or files: one report, an array of reports, or one report a line, also packed
    /// with gzip or zstd; or a folder or a zip archive of such files. Standard input if none or `-` is given
    #[arg(value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// For reports in files: a dSYM, a Mach-O file, an archive or a folder of them; may be given more than once
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    /// For reports in files: the app's binary of the build that crashed, for its instructions: a Mach-O file, an archive or a
    /// folder such as MyApp.app; may be given more than once
    #[arg(long, value_name = "PATH")]
    binary: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArguments,
    /// For reports in files: grouping rules to explain their groups with
    #[arg(long, value_name = "FILE")]
    grouping_rules: Option<PathBuf>,
    /// For reports in files: add the values of the variables at the instruction of the crash, from the dSYM, the registers and the bytes
    /// around the stack pointer. Values may be data of users
    #[arg(long)]
    variables: bool,
    /// The thread with this index; without it the one that crashed
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    thread: Option<i64>,
    /// One frame of it, from 0, with every step to its answer
    #[arg(long, value_name = "NUMBER")]
    frame: Option<u64>,
    /// Print the whole explanation as JSON; those of reports in files one a line, unless a terminal shows them
    #[arg(long)]
    json: bool,
}

/// Explains the frames of reports.
pub fn run(arguments: &Arguments) -> Outcome {
    match arguments.report_id()? {
        Some(id) => explain_at_api(&id, arguments),
        None => explain_files(arguments),
    }
}

impl Arguments {
    /// Returns the id of a report at the API, or none if files are named.
    fn report_id(&self) -> Result<Option<String>, CommandError> {
        let is_file = |named: &PathBuf| named.as_os_str() == "-" || named.exists();
        let Some(named) = self.reports.iter().find(|named| !is_file(named)) else { return Ok(None) };
        let Some(id) = named.to_str().and_then(|text| unslide_cli::parse_entry_id(text).ok()) else {
            return Err(CommandError::neither_file_nor("the id of a report", &named.to_string_lossy()));
        };
        if self.reports.len() > 1 {
            let text = format!("{id} is not a file; give the id of a report at the API alone");
            return Err(CommandError::usage(text));
        }
        if !self.symbols.is_empty() {
            return Err(CommandError::usage("--symbols is for reports in files"));
        }
        if !self.binary.is_empty() {
            return Err(CommandError::usage("--binary is for reports in files"));
        }
        if self.grouping_rules.is_some() {
            return Err(CommandError::usage("--grouping-rules is for reports in files"));
        }
        if self.variables {
            return Err(CommandError::usage("--variables is for reports in files"));
        }
        Ok(Some(id))
    }
}

fn explain_at_api(id: &str, arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    let explanation: Value = block_on(async { Ok(client.get(&format!("/v1/reports/{id}/explain")).await?) })?;
    if arguments.json {
        Console::get().print_json(&explanation)?;
        return Ok(Exit::Ready);
    }
    let (text, noticed) = explanation_text(&explanation, arguments.thread, arguments.frame);
    Console::get().write_bytes(text.as_bytes());
    noticed.notes.iter().for_each(|text| note!("{text}"));
    Ok(if noticed.is_missing { Exit::Missing } else { Exit::Ready })
}

/// Explains every report in the order in which they come. Standard error names input that cannot be read; then the
/// exit code is 1.
fn explain_files(arguments: &Arguments) -> Outcome {
    let rules = read_rules(arguments.grouping_rules.as_deref())?;
    let files = InputFiles::find_named(&arguments.reports)?;
    let paths = [&arguments.symbols[..], &arguments.binary[..]].concat();
    let library = Library::open(&paths, arguments.build)?;
    let analyses = features::read_analyses(arguments.variables);
    let is_terminal = io::stdout().is_terminal();
    let readers = features::read_report_readers();
    let explain = |bytes: &[u8]| {
        let explanation = answer_report(bytes, &readers, || {
            let document = readers.open(bytes, &ReadLimits::default())?;
            let report = Report::read_event(document.json(), &ReadLimits::default())?;
            let plan = Plan::new(&report);
            let symbols = library.for_report(&plan.list_needs());
            let derivatives = ReportDerivatives::find(&library, &plan, &analyses);
            let symbols_of = |id: &DebugId| symbols.get(id);
            Ok(explain_with_derived(&report, &symbols_of, &rules, &analyses, &derivatives.list()))
        })?;
        let explanation = serde_json::to_value(explanation).map_err(|error| error.to_string())?;
        if arguments.json {
            let text = json_text(&explanation, is_terminal).map_err(|error| error.to_string())?;
            return Ok((text, Noticed::default()));
        }
        Ok(explanation_text(&explanation, arguments.thread, arguments.frame))
    };
    let handling = RecordHandling {
        readers: &readers,
        answer: |record| explained_record(record, &explain),
        separator: if arguments.json { "" } else { "\n" },
        unreadable: "not explained",
    };
    let mut is_missing = false;
    let end = answer_files(&files.paths, &handling, &mut |noticed: Noticed| {
        noticed.notes.iter().for_each(|text| note!("{text}"));
        is_missing |= noticed.is_missing;
    })?;
    Ok(end.exit_code(is_missing))
}

fn explained_record(
    record: InputRecord,
    explain: &impl Fn(&[u8]) -> Result<(String, Noticed), String>,
) -> AnsweredRecord<Noticed> {
    let (line, explained, foreign) = match record {
        InputRecord::Filler(_) | InputRecord::Between(_) => return AnsweredRecord::default(),
        InputRecord::TooLong { line, bytes } => return AnsweredRecord::too_long(line, bytes.len()),
        InputRecord::NoReport { line, problem, .. } => return AnsweredRecord::unreadable(line, problem),
        InputRecord::Element { line, number, bytes, .. } => {
            (line, explain(&bytes).map_err(|problem| element_problem(number, &problem)), false)
        }
        InputRecord::Report { line, bytes, .. } => {
            let explained = explain(&bytes);
            let foreign = explained.is_err() && foreign_format(&bytes).is_some();
            (line, explained, foreign)
        }
    };
    match explained {
        Ok((text, noticed)) => {
            AnsweredRecord { line, bytes: text.into_bytes(), noticed, ..AnsweredRecord::default() }
        }
        Err(problem) => AnsweredRecord { foreign, ..AnsweredRecord::unreadable(line, problem) },
    }
}
