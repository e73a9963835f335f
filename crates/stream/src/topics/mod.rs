//! Facts of topics, and their creation.

pub mod admin;
pub(super) mod partitions;
pub(super) mod topic_facts;
