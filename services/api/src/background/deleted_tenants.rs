//! Removes the data of deleted tenants from this machine's disk.

use std::sync::Arc;
use unslide_artifacts::SymcacheCache;
use unslide_model::Clock;
use unslide_proto::Message;
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_stream::{Settings, StreamError, TailEvent, TailReader};

/// Follows the topic of tenants, from its start, until the reader is dropped. Each deletion empties the cache
/// of that tenant, even if it happened while no process ran.
///
/// # Errors
/// The reader cannot be created.
pub fn forget_deleted_tenants(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    symcaches: SymcacheCache,
) -> Result<TailReader, StreamError> {
    let topic = settings.topic_names().tenant_config;
    TailReader::start(settings, &topic, clock, move |event| {
        let TailEvent::Record(record) = event else { return };
        let Some(config) = record.value.and_then(|value| TenantConfig::decode(value).ok()) else { return };
        if let (TenantState::Deleted, Ok(tenant)) = (config.state(), config.parse_tenant_id()) {
            symcaches.forget_tenant(&tenant);
        }
    })
}
