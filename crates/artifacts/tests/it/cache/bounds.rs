//! What the cache may take, and who has to give when it is full.

use super::world::{World, generation, id, size, symcache_of, tenant};
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::{CacheLimits, CacheSettings, Evictions, Hint, Operation, SymcacheCache, keys};
use unslide_model::{DebugId, Owner, Scoped};
use unslide_symbolicate::ImageSymbols;

fn is_here(cache: &SymcacheCache, id: &Scoped<DebugId>) -> bool {
    cache.peek(id, false, Hint::default()).is_some()
}

async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Proves: fairness
#[tokio::test]
async fn a_tenant_over_its_share_gives_its_own_first() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { tenant_share: 50, ..CacheLimits::default() });
    let mut quiet = Vec::new();
    for n in 1..=5 {
        quiet.push(world.used(&cache, "quiet", n, 2).await);
    }
    // Each is used again and again, so that nothing but the share protects the others.
    for n in 10..60 {
        world.used(&cache, "noisy", n, 3).await;
        assert!(cache.stats().bytes <= size() * 10);
    }
    let evictions = cache.stats().evictions;
    assert_eq!(evictions, Evictions { over_share: 45, ..Evictions::default() });
    assert_eq!(world.files().len(), 10);
    assert!(quiet.iter().all(|id| is_here(&cache, id)));
}

/// Proves: fairness
#[tokio::test]
async fn whoever_is_most_over_its_share_makes_room_for_others() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { tenant_share: 30, ..CacheLimits::default() });
    let mut first = Vec::new();
    for n in 1..=10 {
        first.push(world.used(&cache, "first", n, 2).await);
    }
    assert_eq!(cache.stats().evictions.total_count(), 0, "room that nobody wants is anybody's");
    let mut second = Vec::new();
    for n in 20..23 {
        second.push(world.used(&cache, "second", n, 2).await);
    }
    assert!(second.iter().all(|id| is_here(&cache, id)));
    let left = first.iter().filter(|id| is_here(&cache, id)).count();
    assert_eq!((left, cache.stats().evictions.over_share), (7, 3));
}

/// Proves: fairness
#[tokio::test]
async fn a_thousand_cold_images_do_not_evict_a_hot_one() {
    let world = World::new();
    // Without shares: probation alone has to do it.
    let cache = world.open_for(10, CacheLimits { tenant_share: 100, ..CacheLimits::default() });
    let mut hot = Vec::new();
    for n in 1..=5 {
        hot.push(world.used(&cache, "quiet", n, 2).await);
    }
    for n in 10..1_010 {
        world.used(&cache, "noisy", n, 1).await;
    }
    let stats = cache.stats();
    assert_eq!((stats.proven, stats.probation), (5, 5));
    assert_eq!(stats.evictions, Evictions { probation: 995, ..Evictions::default() });
    assert!(hot.iter().all(|id| is_here(&cache, id)));
}

/// Proves: fairness
#[tokio::test]
async fn what_comes_new_has_room_to_be_used_again() {
    let world = World::new();
    // One tenant alone, over its share all the time. Its images of yesterday fill the cache.
    let cache =
        world.open_for(10, CacheLimits { tenant_share: 90, probation_share: 30, ..CacheLimits::default() });
    for n in 1..=10 {
        world.used(&cache, "acme", n, 2).await;
    }
    // Today's are used in turn, each a second time after the other was fetched.
    let mut today = Vec::new();
    for n in 20..22 {
        today.push(world.used(&cache, "acme", n, 1).await);
    }
    assert!(today.iter().all(|id| is_here(&cache, id)));
    let stats = cache.stats();
    assert_eq!((stats.proven, stats.probation, stats.evictions.over_share), (10, 0, 2));
}

/// Proves: fairness
#[tokio::test]
async fn the_systems_symcaches_have_a_share_of_their_own() {
    let world = World::new();
    let limits = CacheLimits { tenant_share: 80, system_share: 20, ..CacheLimits::default() };
    let cache = world.open_for(10, limits);
    let asker = tenant("acme");
    let system = async |n: u16| {
        world.publish(&keys::for_symbols(Owner::System.own(id(n))), 1, symcache_of(id(n))).await;
        for _ in 0..2 {
            let found = cache.get(&asker.scope(id(n)), true, Hint::default()).await.unwrap();
            assert!(matches!(found, ImageSymbols::Found { .. }));
        }
    };
    let ours = world.used(&cache, "acme", 1, 2).await;
    for n in 100..150 {
        system(n).await;
    }
    assert!(is_here(&cache, &ours), "a flood of system images does not push a tenant's out");
    for n in 10..60 {
        world.used(&cache, "acme", n, 2).await;
    }
    let kept = (100..150).filter(|n| cache.peek(&asker.scope(id(*n)), true, Hint::default()).is_some());
    assert_eq!(kept.count(), 2, "its share is left to the system");
}

#[tokio::test]
async fn one_that_is_larger_than_the_cache_is_used_and_not_kept() {
    let world = World::new();
    let cache = world.open(size() - 1);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    assert_eq!(generation(&cache, &ours).await, Some(1));
    assert_eq!((cache.stats().entry_count(), world.files().len()), (0, 0));
}

#[tokio::test]
async fn maps_are_bounded_and_files_stay() {
    let world = World::new();
    let cache = world.open_for(100, CacheLimits { mapped: 2, ..CacheLimits::default() });
    for n in 1..=5 {
        world.used(&cache, "acme", n, 1).await;
    }
    let stats = cache.stats();
    assert_eq!((stats.mapped, stats.unmapped, stats.entry_count()), (2, 3, 5));
    let gets = world.memory.call_count(Operation::Get);
    for n in 1..=5 {
        assert_eq!(generation(&cache, &tenant("acme").scope(id(n))).await, Some(1));
        assert!(cache.stats().mapped <= 2);
    }
    assert_eq!(world.memory.call_count(Operation::Get), gets, "mapped again from the disk");
}

#[tokio::test]
async fn files_are_bounded() {
    let world = World::new();
    let cache = world.open_for(1_000, CacheLimits { files: 4, tenant_share: 50, ..CacheLimits::default() });
    let quiet = world.used(&cache, "quiet", 1, 2).await;
    for n in 10..60 {
        world.used(&cache, "noisy", n, 2).await;
        assert!(cache.stats().entry_count() <= 4);
    }
    assert_eq!(world.files().len(), 4);
    assert!(is_here(&cache, &quiet), "shares hold for files too");
}

#[tokio::test]
async fn what_is_missing_is_bounded_and_what_is_asked_for_stays() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { missing: 10, ..CacheLimits::default() });
    let quiet = tenant("quiet").scope(id(1));
    for n in 1..=100 {
        assert_eq!(generation(&cache, &quiet).await, None);
        assert_eq!(generation(&cache, &tenant("noisy").scope(id(n))).await, None);
    }
    assert_eq!((cache.stats().missing, cache.stats().missing_dropped), (10, 91));
    assert_eq!(world.memory.call_count(Operation::Get), 101, "the quiet tenant's is asked for once");
}

#[tokio::test]
async fn downloads_at_the_same_time_are_bounded() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { downloads: 2, ..CacheLimits::default() });
    let hold = world.memory.hold(Operation::Get, "symcache");
    let getting: Vec<_> = (1..=5)
        .map(|n| {
            let cache = cache.clone();
            tokio::spawn(async move { generation(&cache, &tenant("acme").scope(id(n))).await })
        })
        .collect();
    settle().await;
    assert_eq!((world.memory.call_count(Operation::Get), cache.stats().downloads), (2, 2));
    drop(hold);
    for got in getting {
        assert_eq!(got.await.unwrap(), None);
    }
    assert_eq!((world.memory.call_count(Operation::Get), cache.stats().downloads), (5, 0));
}

#[tokio::test]
async fn bytes_of_downloads_are_bounded() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { download_bytes: size(), ..CacheLimits::default() });
    let hold = world.memory.hold_bytes("symcache");
    let mut getting = Vec::new();
    for n in 1..=4 {
        let ours = tenant("acme").scope(id(n));
        world.tenants(&ours, 1).await;
        let cache = cache.clone();
        getting.push(tokio::spawn(async move { generation(&cache, &ours).await }));
    }
    settle().await;
    assert_eq!(world.memory.call_count(Operation::Get), 4, "each knows how large its symcache is");
    assert_eq!(world.files().len(), 1, "one has room to be written");
    assert_eq!(cache.stats().download_bytes, size().div_ceil(1024) << 10);
    drop(hold);
    for got in getting {
        assert_eq!(got.await.unwrap(), Some(1));
    }
    // One that is larger than all of the room is downloaded alone.
    let small = CacheLimits { download_bytes: 1, ..CacheLimits::default() };
    let folder = world.folder.path().join("small");
    let small = world.open_with(CacheSettings::new(folder, 1 << 30).with_limits(small));
    assert_eq!(generation(&small, &tenant("acme").scope(id(1))).await, Some(1));
    assert_eq!((cache.stats().download_bytes, small.stats().download_bytes), (0, 0));
}

/// Proves: fairness
#[tokio::test]
async fn what_one_tenant_downloads_leaves_room_for_another() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { download_bytes: size() * 8, ..CacheLimits::default() });
    let hold = world.memory.hold_bytes("t/noisy");
    let mut getting = Vec::new();
    for n in 1..=10 {
        let noisy = tenant("noisy").scope(id(n));
        world.tenants(&noisy, 1).await;
        let cache = cache.clone();
        getting.push(tokio::spawn(async move { generation(&cache, &noisy).await }));
    }
    settle().await;
    assert!(world.files().len() <= 2, "a quarter of the room");
    let quiet = tenant("quiet").scope(id(1));
    world.tenants(&quiet, 1).await;
    let got = tokio::time::timeout(Duration::from_secs(60), generation(&cache, &quiet)).await;
    assert_eq!(got.expect("it waits for nobody"), Some(1));
    drop(hold);
    for got in getting {
        assert_eq!(got.await.unwrap(), Some(1));
    }
    assert_eq!(cache.stats().download_bytes, 0);
}

#[tokio::test]
async fn a_symcache_larger_than_allowed_is_not_fetched() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { largest_bytes: size() - 1, ..CacheLimits::default() });
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    let error = cache.get(&ours, false, Hint::default()).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("more than"), "{error}");
    assert!(world.files().is_empty());
}

/// Proves: outages
#[tokio::test(start_paused = true)]
async fn object_storage_that_delays_its_answer_or_its_bytes_is_given_up_for_now() {
    let world = World::new();
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    for bytes in [false, true] {
        let cache =
            Arc::new(world.open_for(10, CacheLimits { download_seconds: 7, ..CacheLimits::default() }));
        let hold = if bytes {
            world.memory.hold_bytes("symcache")
        } else {
            world.memory.hold(Operation::Get, "symcache")
        };
        let begun = tokio::time::Instant::now();
        let error = cache.get(&ours, false, Hint::default()).await.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("in time"), "{error}");
        // The clock is the test's: it stands still but for what is waited for.
        assert_eq!(begun.elapsed(), Duration::from_secs(7));
        assert!(world.files().is_empty());
        drop(hold);
        assert_eq!(generation(&cache, &ours).await, Some(1));
        cache.forget_tenant(&ours.tenant);
    }
}
