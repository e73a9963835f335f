//! Partitions of a lane, and the offsets from which it reads them.

pub(super) mod context;
pub(super) mod expulsion;
pub(super) mod hold;
pub(super) mod membership;
pub(super) mod rejoin;
pub(super) mod rewind;
pub(super) mod shares;
pub(super) mod unassigned;
