//! Asking for new revisions of stored reports: their symbols came late, or somebody wants them again.

pub(crate) mod pace;
pub(crate) mod regroup;
pub(crate) mod reprocess;
pub(crate) mod wake;
