//! Commands that ask the API.

pub mod dead_letter;
pub mod doctor;
pub mod groups;
pub mod reports;
pub mod reprocess;
pub mod symbols;
