//! The bug that a report belongs to, as symbolication found it and the store counts it.

/// A report's bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportGrouping {
    /// Equal for all reports of the same bug.
    pub fingerprint: [u8; 16],
    /// The kind of event, such as `crash`.
    pub kind: String,
    /// True while symbols of a frame that decides the group are missing.
    pub provisional: bool,
    /// One line for a list.
    pub title: String,
    /// The function at fault. Empty if there is none.
    pub culprit: String,
}
