//! The operations, one file each, in folders by subject.

pub mod apps;
pub mod audit_log;
pub mod dead_letters;
pub mod group_views;
pub mod grouping_rules;
pub mod groups;
pub mod keys;
pub mod prelude;
pub mod reports;
pub mod reprocess;
pub mod search;
pub mod sessions;
pub mod symbols;
pub mod tenants;
