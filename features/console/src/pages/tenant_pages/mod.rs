//! Pages for a tenant's administrators and for operators.

pub mod audit_log;
pub mod dead_letter;
pub mod dead_letters;
pub mod keys;
pub mod settings;
pub mod stored_data;
pub mod tenants;
