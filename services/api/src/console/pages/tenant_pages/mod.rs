//! The pages of what a tenant's people, and operators, set and watch.

pub mod audit_log;
pub mod dead_letter;
pub mod dead_letters;
pub mod keys;
pub mod settings;
pub mod tenants;
