//! Symbols that change while this process runs: what its cache knows of them is dropped, as in a symbolizer.

use std::sync::Arc;
use unslide_artifacts::SymcacheCache;
use unslide_model::Clock;
use unslide_stream::{Settings, StreamError, TailEvent, TailReader};

/// Follows the topic of symbol events, until the reader is dropped.
///
/// # Errors
/// Where no reader can be made.
pub fn follow(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    symcaches: SymcacheCache,
) -> Result<TailReader, StreamError> {
    let topic = settings.topics().symbol_events;
    TailReader::start(settings, &topic, clock, move |event| match event {
        TailEvent::Gap => symcaches.missed_events(),
        TailEvent::Record(record) => {
            let Some(value) = record.value else { return };
            if let Err(error) = symcaches.take_event(&value) {
                tracing::error!(record = ?record.at, "a symbol event can't be read: {error}");
            }
        }
    })
}
