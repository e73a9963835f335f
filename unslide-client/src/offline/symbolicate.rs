//! `unslide symbolicate`: reports from a file or a pipe, symbols from folders, no server.

mod answer;
mod facts;

use crate::features;
use crate::offline::records::input::InputRecord;
use crate::offline::records::{InputFiles, RecordHandling, answer_files};
use crate::online::groups::rules::read_rules;
use answer::{OutputFormat, RecordAnswering};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use unslide_cli::symbols::{BuildArguments, Lacking, Library};
use unslide_cli::{Exit, Outcome};

/// Sources of reports and symbols.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  unslide symbolicate --symbols MyApp.xcarchive report.json
  unslide symbolicate --symbols MyApp.app.dSYM MyApp.ips
  unslide symbolicate --symbols MyApp.xcarchive --format text MyApp.xccrashpoint
  unslide symbolicate --symbols dSYMs.zip --format text report.json.gz
  unslide symbolicate --symbols dsyms/ --format markdown report.json
  unslide symbolicate --symbols dsyms/ --variables --format text report.json
  unslide symbolicate --symbols MyApp.app.dSYM --binary MyApp.app --format text report.json
  unslide symbolicate --symbols dsyms/ reports/*.json > enriched.ndjson
  unslide symbolicate --symbols dsyms/ --require-symbols < reports.ndjson > enriched.ndjson")]
pub struct Arguments {
    /// A dSYM, a Mach-O file, a source map, an archive of them (zip, tar.gz), or a folder that is searched for them;
    /// may be given more than once. A source map is found by its debug id; one without by its name without .map
    #[arg(long, alias = "dsym", value_name = "PATH")]
    symbols: Vec<PathBuf>,
    /// The app's binary of the build that crashed: a Mach-O file, an archive or a folder such as MyApp.app. Its instructions say
    /// which expression was bad; may be given more than once
    #[arg(long, value_name = "PATH")]
    binary: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArguments,
    /// Enriched reports in their own form, logs in Apple's form, Markdown for an issue, or the facts of reports without
    /// symbols. Without it logs on a terminal, and enriched reports elsewhere
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    /// Name the evidence of each sentence of Markdown in square brackets
    #[arg(long, requires = "format")]
    evidence: bool,
    /// A file with grouping rules, as `unslide groups rules` takes it
    #[arg(long, value_name = "FILE")]
    grouping_rules: Option<PathBuf>,
    /// Add the values of the variables at the instruction of the crash, from the dSYM, the registers and the bytes
    /// around the stack pointer. Values may be data of users
    #[arg(long)]
    variables: bool,
    /// End with exit code 3 if frames of the app lack symbols, or have no address or image because a member of the
    /// report is of a wrong type
    #[arg(long)]
    require_symbols: bool,
    /// One report, an array of reports, one report a line, or a log of Apple's (.ips, .crash, MetricKit), also packed with
    /// gzip or zstd; or a folder or a zip archive of such files (.xccrashpoint). Standard input if none or `-` is given
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Answers every report in the order of the input. Passes reports that cannot be read on unchanged, and names
/// them on standard error. The exit code is then 1.
pub fn run(arguments: &Arguments) -> Outcome {
    let rules = read_rules(arguments.grouping_rules.as_deref())?;
    let files = InputFiles::find_named(&arguments.files)?;
    let paths = [&arguments.symbols[..], &arguments.binary[..]].concat();
    let library = Library::open(&paths, arguments.build)?;
    let (readers, analyses) = (features::read_report_readers(), features::read_analyses(arguments.variables));
    let default = if io::stdout().is_terminal() { OutputFormat::Text } else { OutputFormat::Json };
    let answering = RecordAnswering {
        readers: &readers,
        library: &library,
        rules: &rules,
        analyses: &analyses,
        format: arguments.format.unwrap_or(default),
        names_evidence: arguments.evidence,
    };
    let handling = RecordHandling {
        readers: &readers,
        answer: |record: InputRecord| answering.answer_record(record),
        separator: "",
        unreadable: "passed on unchanged",
    };
    let mut lacking = Lacking::default();
    let end = answer_files(&files.paths, &handling, &mut |lacked| lacking.add_report(lacked))?;
    if !end.is_closed {
        lacking.print_lacking(&library);
    }
    if !end.is_closed && !lacking.is_empty() && library.count_unreadable() > 0 {
        // A file that cannot be read is not a file that does not exist.
        return Ok(Exit::Failed);
    }
    let lacks_required = arguments.require_symbols && !end.is_closed && !lacking.is_empty();
    Ok(end.exit_code(lacks_required))
}
