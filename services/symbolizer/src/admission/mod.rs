//! Decides which tenant a record belongs to, whether it is accepted, and how much the tenant may use.

pub mod drain_rates;
pub mod lane_charges;
pub mod sender;
pub mod tenant_partitions;
pub mod tenant_rates;
pub mod tenants;
