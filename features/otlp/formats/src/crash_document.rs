//! The report of a record.

use crate::facts::TelemetryFacts;

/// The report of a record, with what the attributes say beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashDocument {
    /// The report in a form that readers of reports know.
    pub bytes: Vec<u8>,
    /// What the attributes say about the app, the device and the run.
    pub facts: TelemetryFacts,
}
