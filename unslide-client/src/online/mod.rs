//! Commands that ask the API.

pub mod dead_letter;
pub mod doctor;
pub mod groups;
pub mod key;
pub mod login;
pub mod release;
pub mod reports;
pub mod reprocess;
pub mod search;
pub mod send;
pub mod settings;
mod stored_report;
pub mod symbols;
