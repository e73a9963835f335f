//! Symbols that changed: what the cache knows of them is dropped at once.

use prost::Message;
use std::sync::Arc;
use unslide_artifacts::SymcacheCache;
use unslide_model::Clock;
use unslide_proto::symbol::SymbolEvent;
use unslide_stream::{Settings, StreamError, TailEvent, TailReader};

/// Begins to read the events into the cache.
pub fn start(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    cache: SymcacheCache,
) -> Result<TailReader, StreamError> {
    let topic = settings.topics().symbol_events;
    TailReader::start(settings, &topic, clock, move |event| match event {
        TailEvent::Gap => cache.missed_events(),
        TailEvent::Record(record) => {
            let Some(value) = record.value else { return };
            if let Err(detail) = apply(&cache, value) {
                // What it would have said is not known: nothing remembered counts any more.
                tracing::error!(record = ?record.at, "a symbol event can't be read: {detail}");
                cache.missed_events();
            }
        }
    })
}

fn apply(cache: &SymcacheCache, value: bytes::Bytes) -> Result<(), String> {
    let event = SymbolEvent::decode(value).map_err(|e| e.to_string())?;
    let id = event.id().map_err(|e| e.to_string())?;
    match event.owner().map_err(|e| e.to_string())? {
        Some(tenant) => cache.forget(&tenant.scope(id), event.generation),
        None => cache.forget_system(id, event.generation),
    }
    Ok(())
}
