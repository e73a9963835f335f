//! Symbols that changed: what the cache knows of them is dropped at once.

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
    cache: SymcacheCache,
) -> Result<TailReader, StreamError> {
    let topic = settings.topics().symbol_events;
    TailReader::start(settings, &topic, clock, move |event| take(&cache, event))
}

fn take(cache: &SymcacheCache, event: TailEvent) {
    match event {
        TailEvent::Gap => cache.missed_events(),
        TailEvent::Record(record) => {
            let Some(value) = record.value else { return };
            if let Err(error) = cache.take_event(&value) {
                tracing::error!(record = ?record.at, "a symbol event can't be read: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use unslide_artifacts::{CacheSettings, Hint, Memory, ObjectStore, Operation};
    use unslide_model::{DebugId, Scoped, SystemClock, TenantId};
    use unslide_proto::symbol::SymbolEvent;
    use unslide_stream::{Headers, Record, RecordRef};

    struct Bench {
        cache: SymcacheCache,
        memory: Memory,
        _folder: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Bench {
            let (store, memory) = ObjectStore::memory();
            let folder = tempfile::tempdir().unwrap();
            let settings = CacheSettings::new(folder.path().join("cache"), 1 << 30);
            let cache = SymcacheCache::open(settings, store, Arc::new(SystemClock)).unwrap();
            Bench { cache, memory, _folder: folder }
        }

        /// True where the cache asks object storage, and does not answer from what it remembers.
        async fn asks(&self, id: &Scoped<DebugId>) -> bool {
            let before = self.memory.calls(Operation::Get);
            let answer = self.cache.get(id, false, Hint::default()).await.unwrap();
            assert_eq!(answer.generation(), None, "it is missing");
            self.memory.calls(Operation::Get) > before
        }
    }

    fn event(value: impl Into<bytes::Bytes>) -> TailEvent {
        let at = RecordRef { topic: "events".into(), partition: 0, offset: 0 };
        let value = Some(value.into());
        TailEvent::Record(Record { at, time_millis: None, key: None, value, headers: Headers::new() })
    }

    #[tokio::test]
    async fn what_is_missing_is_asked_for_again_after_its_own_event_a_gap_and_an_event_that_no_one_reads() {
        let bench = Bench::new();
        let id = |n| TenantId::new("acme").unwrap().scope(DebugId([n; 16]));
        assert!(bench.asks(&id(1)).await && !bench.asks(&id(1)).await, "it is remembered as missing");
        let tell = |n| SymbolEvent {
            tenant: "acme".into(),
            debug_id: id(n).id.0.to_vec().into(),
            generation: 1,
            ..SymbolEvent::default()
        };
        take(&bench.cache, event(tell(2).encode_to_vec()));
        assert!(!bench.asks(&id(1)).await, "another's event says nothing of it");
        take(&bench.cache, event(tell(1).encode_to_vec()));
        assert!(bench.asks(&id(1)).await && !bench.asks(&id(1)).await);
        take(&bench.cache, TailEvent::Gap);
        assert!(bench.asks(&id(1)).await && !bench.asks(&id(1)).await);
        take(&bench.cache, event("no event"));
        assert!(bench.asks(&id(1)).await && !bench.asks(&id(1)).await);
    }

    /// Also while object storage still has it.
    #[tokio::test]
    async fn what_was_deleted_is_missing_without_asking_until_its_next_event() {
        let bench = Bench::new();
        let id = TenantId::new("acme").unwrap().scope(DebugId([1; 16]));
        let tell = |generation, deleted| SymbolEvent {
            tenant: "acme".into(),
            debug_id: id.id.0.to_vec().into(),
            generation,
            deleted,
            ..SymbolEvent::default()
        };
        take(&bench.cache, event(tell(2, true).encode_to_vec()));
        assert!(!bench.asks(&id).await);
        take(&bench.cache, event(tell(3, false).encode_to_vec()));
        assert!(bench.asks(&id).await);
    }
}
