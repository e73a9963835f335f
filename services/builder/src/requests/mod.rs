//! Requests new revisions of stored reports whose symbols came late, or that a user wants symbolicated again.

pub(crate) mod pace;
pub(crate) mod regroup;
pub(crate) mod reprocess;
pub(crate) mod wake;
