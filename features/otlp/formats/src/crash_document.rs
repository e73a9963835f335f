//! The report of a record.

use crate::facts::TelemetryFacts;

/// The maximum number of frames that are written for a report. In a request a frame may take three bytes, and written it takes many
/// times as many.
pub(crate) const REPORT_FRAMES_LIMIT: usize = 16_384;

/// The report of a record, with what the attributes say beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashDocument {
    /// The report in a form that readers of reports know.
    pub bytes: Vec<u8>,
    /// Facts about the app, the device and the run from the attributes.
    pub facts: TelemetryFacts,
}
