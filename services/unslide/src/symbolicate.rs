//! `unslide symbolicate`: reports from a file or a pipe, symbols from folders, no server.

mod answer;
mod input;
mod library;
mod pipeline;

use crate::failure::Outcome;
use answer::{Format, Job};
use input::{Input, Records};
use library::Library;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::process::ExitCode;

/// Where reports and symbols come from.
#[derive(clap::Args)]
pub struct Arguments {
    /// A dSYM, a Mach-O file, or a folder that is searched for them; may be given more than once
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    /// Enriched reports as JSON, or logs in Apple's form
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// One report, or one report a line; standard input where it is left out or `-`
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Why the command cannot begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The input cannot be opened.
    #[error("cannot open {0}")]
    Open(PathBuf, #[source] io::Error),
    /// The input breaks off.
    #[error("cannot read the reports")]
    Read(#[source] io::Error),
    /// The output cannot be written.
    #[error("cannot write the answers")]
    Write(#[source] io::Error),
}

/// Answers every report in the order in which they come. What cannot be read is passed on as it is
/// and named on standard error; then the exit code is 1.
pub fn run(arguments: &Arguments) -> Outcome {
    let (library, notes) = Library::search(&arguments.symbols)?;
    for note in notes {
        eprintln!("unslide: {note}");
    }
    let source: Box<dyn Read + Send> = match &arguments.file {
        Some(path) if path.as_os_str() != "-" => {
            Box::new(File::open(path).map_err(|error| Failure::Open(path.clone(), error))?)
        }
        _ => Box::new(io::stdin()),
    };
    let input = Input::open(source).map_err(Failure::Read)?;
    let whole = matches!(input.records, Records::Whole(_));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = |job: Job| answer::answer(job, &library, arguments.format);
    let mut sound = true;
    let mut note = |line: u64, reason: &str| {
        sound = false;
        if whole {
            eprintln!("unslide: {reason}; passed on as it is");
        } else {
            eprintln!("unslide: line {line}: {reason}; passed on as it is");
        }
    };
    match pipeline::run(input, threads, work, &mut io::stdout().lock(), &mut note) {
        Ok(()) if sound => Ok(ExitCode::SUCCESS),
        Ok(()) => Ok(ExitCode::FAILURE),
        Err(pipeline::Stopped::Read(error)) => Err(Failure::Read(error).into()),
        // The reader of our output has seen enough: nothing to report.
        Err(pipeline::Stopped::Write(error)) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(ExitCode::FAILURE)
        }
        Err(pipeline::Stopped::Write(error)) => Err(Failure::Write(error).into()),
    }
}
