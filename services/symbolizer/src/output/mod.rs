//! Records that the worker writes: enriched reports, copies for later, dead letters, ledger entries.

pub mod dead_letters;
pub mod ledger;
pub mod outcomes;
pub mod passing;
pub mod spans;
pub mod stored_reports;
pub mod tenant_topics;
pub mod traces;
