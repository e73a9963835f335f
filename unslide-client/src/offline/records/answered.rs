//! The answer for a record.

use crate::offline::records::files::RecordSource;
use crate::offline::records::input::describe_error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use unslide_report::reader::ReportReaders;
use unslide_report::{ReadError, ReadLimits, foreign_format};

/// The answer for a record. `N` has the remarks of a command.
#[derive(Default)]
pub struct AnsweredRecord<N> {
    /// The file that the record is from.
    pub source: RecordSource,
    /// The record's line; 0 if it is no record.
    pub line: u64,
    pub bytes: Vec<u8>,
    /// The problem of the record.
    pub problem: Option<String>,
    /// True if the record is a log in Apple's form.
    pub foreign: bool,
    /// The remarks of the command.
    pub noticed: N,
}

impl<N: Default> AnsweredRecord<N> {
    /// Creates the answer for a record that cannot be read.
    pub fn unreadable(line: u64, problem: String) -> AnsweredRecord<N> {
        AnsweredRecord { line, problem: Some(problem), ..AnsweredRecord::default() }
    }

    /// Creates the answer for a line that is longer than a report may be.
    pub fn too_long(line: u64, bytes: usize) -> AnsweredRecord<N> {
        let limit = ReadLimits::default().max_bytes;
        AnsweredRecord::unreadable(line, describe_error(&ReadError::TooLarge { bytes, limit }))
    }
}

/// Returns the answer to a report, or the reason why there is none. If `answer` panics, only this report has
/// none.
pub fn answer_report<T>(
    bytes: &[u8],
    readers: &ReportReaders,
    answer: impl FnOnce() -> Result<T, ReadError>,
) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(answer))
        .map_err(|_| "symbolication failed, please report this".to_owned())?
        .map_err(|error| {
            // A log in a known form that no reader takes is called that.
            let foreign = readers.find(bytes).is_none().then(|| foreign_format(bytes)).flatten();
            foreign.map_or_else(|| describe_error(&error), |format| format.to_string())
        })
}
