//! Facts of topics, and their creation.

pub mod admin;
pub(super) mod look_ups;
pub(super) mod partitions;
pub(super) mod topic_facts;
