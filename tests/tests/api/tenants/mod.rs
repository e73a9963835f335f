//! Tenants and their keys, from the first key to the deletion, and what one sees of another.

mod isolation;
mod keys_and_tenants;
mod tenant_life;
mod usage;
