//! What a tenant may use, and that another tenant finds the rest.

mod quotas;
pub mod shares;
