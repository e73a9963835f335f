//! The pages of groups.

pub mod group;
pub mod group_actions;
pub mod group_work;
pub mod groups;
