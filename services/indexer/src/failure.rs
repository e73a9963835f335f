//! What goes wrong: through the fault of one record, or of what a reader needs.

use unslide_runtime::{CpuError, causes};
use unslide_store::StoreError;
use unslide_stream::StreamError;

/// How often a record fails by itself before it is skipped.
pub const TRIES: u32 = 3;
const STATEMENT_TIMEOUT: &str = "statement_timeout";

/// Why a record by itself can't be stored: a stable word, and what exactly happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Such as `panicked`.
    pub reason: &'static str,
    /// For a person.
    pub detail: String,
}

impl Failure {
    /// Reading or storing it panicked.
    pub fn panicked(text: impl Into<String>) -> Failure {
        Failure { reason: "panicked", detail: text.into() }
    }

    /// The database refuses its values.
    pub fn refused(error: &StoreError) -> Failure {
        let corrupt = matches!(error, StoreError::Corrupt { .. });
        let reason = if corrupt { "corrupt_row" } else { "constraint_violation" };
        Failure { reason, detail: causes(error) }
    }

    /// Storing it takes the database longer than a statement may.
    pub fn timed_out(error: &StoreError) -> Failure {
        Failure { reason: STATEMENT_TIMEOUT, detail: causes(error) }
    }

    /// True where storing it took too long: fewer records may take less.
    pub fn is_timeout(&self) -> bool {
        self.reason == STATEMENT_TIMEOUT
    }
}

/// Why a reader cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum IndexerError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("reading records failed")]
    Cpu(#[from] CpuError),
    #[error(
        "the topic {topic} is another one than was read before (its id was {was} and is {is}): its offsets mean \
         something else, so nothing is stored until an operator resets the positions (unslide migrate --topics \
         --recover)"
    )]
    OtherTopic { topic: String, was: String, is: String },
    #[error(
        "the position {offset} of {topic}/{partition} lies outside the log ({start}..={end}): records are missing, so \
         nothing is stored until an operator resets the position (unslide migrate --topics --recover)"
    )]
    OutOfRange { topic: String, partition: i32, offset: i64, start: i64, end: i64 },
    #[error(
        "a record can't be stored ({reason}) and is not put into quarantine, because {why}: the cause is probably not \
         in the record. `unslide quarantine list` shows what was quarantined; reading goes on once the record can be \
         stored, or after a restart ten minutes from now"
    )]
    NotQuarantined { reason: &'static str, why: String },
}

impl IndexerError {
    /// True where nothing will change by itself.
    pub fn needs_operator(&self) -> bool {
        matches!(
            self,
            IndexerError::OtherTopic { .. }
                | IndexerError::OutOfRange { .. }
                | IndexerError::NotQuarantined { .. }
        )
    }
}
