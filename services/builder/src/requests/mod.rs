//! Requests new revisions of stored reports if their symbols came late, or if a user wants them symbolicated
//! again.

pub(crate) mod pace;
pub(crate) mod regroup;
pub(crate) mod reprocess;
pub(crate) mod resources;
pub(crate) mod wake;
