//! Readers of topics.

pub(super) mod group_lag;
pub mod scan;
pub(super) mod spread;
pub(super) mod tail;
pub(super) mod waking;

/// The group of readers of compacted topics, after the prefix. It has no members, and commits nothing.
pub(crate) const TAIL_GROUP: &str = "unslide.tail";
/// The group of readers that keep their positions elsewhere, as [`TAIL_GROUP`].
pub(crate) const POSITIONED_GROUP: &str = "unslide.positioned";
/// The group of readers of ranges, as [`TAIL_GROUP`].
pub(crate) const SCAN_GROUP: &str = "unslide.scan";
