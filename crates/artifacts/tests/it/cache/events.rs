//! Events of symbols, as they come from the topic.

use super::world::{World, generation, id, tenant};
use unslide_artifacts::{Operation, SymcacheCache};
use unslide_model::{DebugId, Scoped};
use unslide_proto::Message;
use unslide_proto::symbol::SymbolEvent;

/// True where the cache asks object storage, which has nothing, and does not answer from what it remembers.
async fn asks(world: &World, cache: &SymcacheCache, id: &Scoped<DebugId>) -> bool {
    let before = world.memory.call_count(Operation::Get);
    assert_eq!(generation(cache, id).await, None);
    world.memory.call_count(Operation::Get) > before
}

fn event(id: &Scoped<DebugId>, generation: u64, deleted: bool) -> Vec<u8> {
    let debug_id = id.id.0.to_vec().into();
    let tenant = id.tenant.to_string();
    SymbolEvent { tenant, debug_id, generation, deleted, ..SymbolEvent::default() }.encode_to_vec()
}

#[tokio::test]
async fn what_is_missing_is_asked_for_again_after_its_own_event_a_gap_and_an_event_that_cannot_be_read() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let [ours, other] = [1, 2].map(|n| tenant("acme").scope(id(n)));
    assert!(asks(&world, &cache, &ours).await && !asks(&world, &cache, &ours).await, "remembered");
    cache.take_event(Some(&event(&other, 1, false))).unwrap();
    assert!(!asks(&world, &cache, &ours).await, "another's event says nothing of it");
    cache.take_event(Some(&event(&ours, 1, false))).unwrap();
    assert!(asks(&world, &cache, &ours).await && !asks(&world, &cache, &ours).await);
    cache.take_event(None).unwrap();
    assert!(asks(&world, &cache, &ours).await && !asks(&world, &cache, &ours).await);
    cache.take_event(Some(b"no event")).unwrap_err();
    assert!(asks(&world, &cache, &ours).await && !asks(&world, &cache, &ours).await);
}

/// Also while object storage still has it.
#[tokio::test]
async fn what_was_deleted_is_missing_without_asking_until_its_next_event() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    cache.take_event(Some(&event(&ours, 2, true))).unwrap();
    assert!(!asks(&world, &cache, &ours).await);
    cache.take_event(Some(&event(&ours, 3, false))).unwrap();
    assert!(asks(&world, &cache, &ours).await);
}
