//! The pages of groups.

pub mod bulk;
pub mod group;
pub mod group_actions;
mod group_context;
pub mod group_filters;
mod group_trend;
pub mod group_work;
pub mod groups;
pub mod saved_views;
