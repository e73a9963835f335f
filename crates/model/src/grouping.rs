//! Which bug a report is about, as symbolication has found and the store counts it.

/// A report's bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportGrouping {
    /// Equal for reports of the same bug.
    pub fingerprint: [u8; 16],
    /// What happened, such as `crash`.
    pub kind: String,
    /// True while the symbols of a frame that counts are missing.
    pub provisional: bool,
    /// One line for a list.
    pub title: String,
    /// The function that is to blame; empty where none is.
    pub culprit: String,
}
