//! Tenants that are deleted while this process runs: what is kept of them on its disk goes.

use std::sync::Arc;
use unslide_artifacts::SymcacheCache;
use unslide_model::Clock;
use unslide_proto::Message;
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_stream::{Settings, StreamError, TailEvent, TailReader};

/// Follows the topic of tenants, from its start, until the reader is dropped. Each deletion that it
/// tells of empties the cache of that tenant, also one that happened while no process ran.
///
/// # Errors
/// Where no reader can be made.
pub fn forget(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    symcaches: SymcacheCache,
) -> Result<TailReader, StreamError> {
    let topic = settings.topics().tenant_config;
    TailReader::start(settings, &topic, clock, move |event| {
        let TailEvent::Record(record) = event else { return };
        let Some(config) = record.value.and_then(|value| TenantConfig::decode(value).ok()) else { return };
        if let (TenantState::Deleted, Ok(tenant)) = (config.state(), config.id()) {
            symcaches.forget_tenant(&tenant);
        }
    })
}
