//! The pages, one file each.

pub mod alerts;
pub mod audit_log;
pub mod dead_letters;
pub mod explain;
pub mod exports;
pub mod flame;
pub mod group;
pub mod group_actions;
mod group_work;
pub mod groups;
pub mod keys;
pub mod overview;
pub mod report;
pub mod reports;
pub mod settings;
pub mod sign_in;
pub mod symbols;
pub mod versions;
