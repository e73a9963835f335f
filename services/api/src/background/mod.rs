//! Tasks that run in the background, from the service's start to its end.

pub mod app_slots;
pub mod deleted_tenants;
pub mod key_cache;
pub mod key_uses;
pub mod topics_check;
