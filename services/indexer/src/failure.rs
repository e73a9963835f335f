//! Failures of a single record, and failures of a reader.

use std::collections::BTreeSet;
use unslide_model::{TenantId, format_causes};
use unslide_runtime::CpuError;
use unslide_store::StoreError;
use unslide_stream::StreamError;

/// How often a record fails on its own before it is skipped.
pub const RECORD_TRIES_LIMIT: u32 = 3;
const STATEMENT_TIMEOUT: &str = "statement_timeout";

/// Reason why a single record cannot be stored, with details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Stable reason, such as `panicked`.
    pub reason: &'static str,
    pub detail: String,
}

impl Failure {
    /// Returns the failure of a record that made its processing panic.
    pub fn from_panic(text: impl Into<String>) -> Failure {
        Failure { reason: "panicked", detail: text.into() }
    }

    /// Returns the failure of a record with values that the database refuses.
    pub fn from_refusal(error: &StoreError) -> Failure {
        let corrupt = matches!(error, StoreError::Corrupt { .. });
        let reason = if corrupt { "corrupt_row" } else { "constraint_violation" };
        Failure { reason, detail: format_causes(error) }
    }

    /// Returns the failure of a record that the database cannot store within the statement timeout.
    pub fn timed_out(error: &StoreError) -> Failure {
        Failure { reason: STATEMENT_TIMEOUT, detail: format_causes(error) }
    }

    /// Returns true if storing took too long: fewer records may take less time.
    pub fn is_timeout(&self) -> bool {
        self.reason == STATEMENT_TIMEOUT
    }
}

/// Reason why a reader cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum IndexerError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("deferred reports of {} tenants wait for ClickHouse, which has their rows", .tenants.len())]
    HistoryAway { tenants: BTreeSet<TenantId>, source: StoreError },
    #[error("records of {} tenants that moved to another cell are not passed on to it", .tenants.len())]
    NotPassedOn { tenants: BTreeSet<TenantId>, source: Box<StreamError> },
    #[error("reading records failed")]
    Cpu(#[from] CpuError),
    #[error(
        "the topic {topic} was created again (its id was {was} and is {is}): its offsets mean \
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
        "a record can't be stored ({reason}) and is not skipped, because {why}: the cause is probably not in the \
         record. `unslide dead-letter list --all --stage store` shows the records that were skipped; reading goes on \
         once the record can be stored, or after a restart ten minutes from now"
    )]
    NotSkipped { reason: &'static str, why: String },
}

impl IndexerError {
    /// Returns true if the problem stays until an operator acts.
    pub fn needs_operator(&self) -> bool {
        matches!(
            self,
            IndexerError::OtherTopic { .. }
                | IndexerError::OutOfRange { .. }
                | IndexerError::NotSkipped { .. }
        )
    }
}
