//! Reports from files and pipes, answered on all cores, with the answers in the order of the reports.

mod answered;
pub mod elements;
mod files;
pub mod input;
mod input_files;
mod pipeline;
mod rate;
mod recognition;
mod unreadable;

pub use answered::{AnsweredRecord, answer_report};
pub use elements::element_problem;
pub use files::FileRecords;
pub use input_files::InputFiles;

use files::RecordSource;
use input::InputRecord;
use rate::AnswerRate;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use unreadable::UnreadableRecords;
use unslide_cli::{Exit, note};
use unslide_report::reader::ReportReaders;

/// Why the answers end too early.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The input ended early or could not be read.
    #[error("cannot read the reports")]
    Read(#[source] io::Error),
    /// The output cannot be written.
    #[error("cannot write the answers")]
    Write(#[source] io::Error),
}

/// How a command handles records.
pub struct RecordHandling<'h, W> {
    /// Readers of reports in other formats.
    pub readers: &'h ReportReaders,
    pub answer: W,
    /// Is written between two answers.
    pub separator: &'static str,
    /// The outcome of a record that cannot be read, for its note.
    pub unreadable: &'static str,
}

pub struct AnswerEnd {
    /// True if a record could not be read.
    has_unreadable: bool,
    /// True if the input has no report, and nothing that may be one.
    is_empty: bool,
    /// True if the reader of the output has closed it.
    pub is_closed: bool,
}

impl AnswerEnd {
    /// Returns the exit code. `is_missing` is true if the command lacks something that was requested.
    pub fn exit_code(&self, is_missing: bool) -> Exit {
        if self.is_empty && !self.is_closed {
            note!("there is no report in the input: it is empty");
            return Exit::Usage;
        }
        match (self.has_unreadable, is_missing) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Missing,
            (false, false) => Exit::Ready,
        }
    }
}

/// Answers every record of `files` on standard output, in order. Names a record that cannot be read on
/// standard error. `written` receives each answer after it was written.
///
/// # Errors
/// Returns an error if the input or the output fails.
pub fn answer_files<N: Send>(
    files: &[PathBuf],
    handling: &RecordHandling<'_, impl Fn(InputRecord) -> AnsweredRecord<N> + Sync>,
    written: &mut impl FnMut(N),
) -> Result<AnswerEnd, AnswerError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let answer = |(source, record): (RecordSource, InputRecord)| AnsweredRecord {
        source,
        ..(handling.answer)(record)
    };
    let (mut unreadable, mut rate) =
        (UnreadableRecords::new(files, handling.unreadable), AnswerRate::begin());
    let mut out = io::stdout().lock();
    let done = pipeline::run(
        FileRecords::new(files, handling.readers),
        threads,
        answer,
        &mut out,
        handling.separator,
        &mut |answer| {
            rate.count_answer(&answer);
            unreadable.print_unreadable(&answer);
            written(answer.noticed);
        },
    );
    let is_closed = match done {
        Ok(()) => false,
        Err(pipeline::Stopped::Read(error)) => return Err(AnswerError::Read(error)),
        // The reader of the output has seen enough.
        Err(pipeline::Stopped::Write(error)) if error.kind() == ErrorKind::BrokenPipe => true,
        Err(pipeline::Stopped::Write(error)) => return Err(AnswerError::Write(error)),
    };
    if !is_closed {
        rate.print_rate();
    }
    Ok(AnswerEnd { has_unreadable: unreadable.any(), is_empty: rate.is_empty(), is_closed })
}
