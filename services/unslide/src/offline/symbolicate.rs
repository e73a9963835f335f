//! `unslide symbolicate`: reports from a file or a pipe, symbols from folders, no server.

mod answer;
mod build;
mod bundles;
mod elements;
mod files;
mod input;
mod lacking;
mod library;
mod mapped;
mod packed;
mod pipeline;
mod rate;

pub use build::BuildArguments;
pub use lacking::Lacking;
pub use library::Library;
pub use mapped::map_unpacked;
pub use packed::{read_input, read_unpacked, unpack_archive, unpacked};

use crate::failure::{Exit, Outcome, check_paths};
use crate::online::groups::rules::read_rules;
use crate::output::note;
use answer::{AnsweredRecord, OutputFormat};
use files::{FileRecords, RecordSource};
use input::InputRecord;
use rate::AnswerRate;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Where reports and symbols come from.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  unslide symbolicate --symbols MyApp.xcarchive report.json
  unslide symbolicate --symbols dSYMs.zip --format text report.json.gz
  unslide symbolicate --symbols dsyms/ reports/*.json > enriched.ndjson
  unslide symbolicate --symbols dsyms/ --require-symbols < reports.ndjson > enriched.ndjson")]
pub struct Arguments {
    /// A dSYM, a Mach-O file, a source map, an archive of them (zip, tar.gz), or a folder that is searched for them;
    /// may be given more than once. A source map is found by its debug id; one without by its name without .map
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArguments,
    /// Enriched reports as JSON, or logs in Apple's form
    #[arg(long, value_enum, default_value_t = OutputFormat::Json)]
    format: OutputFormat,
    /// A file with grouping rules, as `unslide groups rules` takes it
    #[arg(long, value_name = "FILE")]
    grouping_rules: Option<PathBuf>,
    /// End with exit code 3 where frames of the app lack symbols
    #[arg(long)]
    require_symbols: bool,
    /// One report, an array of reports, or one report a line, also packed with gzip or zstd; more than one file is
    /// read one after the other. Standard input where none is given, or `-`
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Why the command cannot begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The input breaks off.
    #[error("cannot read the reports")]
    Read(#[source] io::Error),
    /// The output cannot be written.
    #[error("cannot write the answers")]
    Write(#[source] io::Error),
}

/// What was noticed while reports were answered.
struct Notes<'f> {
    files: &'f [PathBuf],
    /// A record could not be read.
    unsound: bool,
    /// The number of a file that begins as a log in Apple's form: what follows is the rest of it.
    foreign: Option<usize>,
    lacking: Lacking,
}

impl<'f> Notes<'f> {
    fn new(files: &'f [PathBuf]) -> Notes<'f> {
        Notes { files, unsound: false, foreign: None, lacking: Lacking::default() }
    }

    fn take(&mut self, answer: AnsweredRecord) {
        self.unsound |= answer.problem.is_some();
        self.lacking.add(answer.lacking);
        let RecordSource { file, is_whole } = answer.source;
        if self.foreign == Some(file) {
            return;
        }
        let is_foreign = answer.foreign && answer.line == 1;
        self.foreign = is_foreign.then_some(file);
        let Some(problem) = answer.problem else { return };
        let of = match self.files {
            [_] => String::new(),
            files => format!("{}: ", files[file].display()),
        };
        if is_whole || is_foreign {
            note!("{of}{problem}; passed on as it is");
        } else {
            note!("{of}line {}: {problem}; passed on as it is", answer.line);
        }
    }
}

/// Answers every report in the order in which they come. What cannot be read is passed on as it is
/// and named on standard error; then the exit code is 1.
pub fn run(arguments: &Arguments) -> Outcome {
    let rules = read_rules(arguments.grouping_rules.as_deref())?;
    let files = match arguments.files.is_empty() {
        true => vec![PathBuf::from("-")],
        false => arguments.files.clone(),
    };
    check_paths(files.iter().map(PathBuf::as_path))?;
    let library = Library::open(&arguments.symbols, arguments.build)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = |(source, job): (RecordSource, InputRecord)| AnsweredRecord {
        source,
        ..answer::answer(job, &library, &rules, arguments.format)
    };
    let (mut notes, mut rate) = (Notes::new(&files), AnswerRate::begin());
    let records = FileRecords::new(&files);
    let done = pipeline::run(records, threads, work, &mut io::stdout().lock(), &mut |answer| {
        rate.add(&answer);
        notes.take(answer);
    });
    match done {
        Ok(()) => {}
        Err(pipeline::Stopped::Read(error)) => return Err(Failure::Read(error).into()),
        // The reader of the output has seen enough.
        Err(pipeline::Stopped::Write(error)) if error.kind() == ErrorKind::BrokenPipe => {
            return Ok(notes.exit(false));
        }
        Err(pipeline::Stopped::Write(error)) => return Err(Failure::Write(error).into()),
    }
    rate.tell();
    notes.lacking.tell();
    Ok(notes.exit(arguments.require_symbols))
}

impl Notes<'_> {
    fn exit(&self, require_symbols: bool) -> Exit {
        match (self.unsound, require_symbols && !self.lacking.is_empty()) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Missing,
            (false, false) => Exit::Ready,
        }
    }
}
