//! The pages of groups.

pub mod group;
pub mod group_actions;
mod group_context;
pub mod group_work;
pub mod groups;
