//! Records that processes died with.

pub(super) mod attempts;
pub(super) mod suspects;
