//! What is known of topics, and how they are made.

pub mod admin;
pub(super) mod group_lag;
pub(super) mod topic_facts;
