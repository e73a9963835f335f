//! The statement that reads the newest reports of something from both databases, within windows of days.

pub(super) mod moved;
pub(super) mod sources;
pub(super) mod windows;
