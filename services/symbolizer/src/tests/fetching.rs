//! Fetching symcaches, without Kafka.

use super::worker_fixture::TestClock;
use crate::symbols::breaker::{Breaker, BreakerLimits};
use crate::symbols::patience::Patience;
use crate::symbols::{FetchedSymbols, Generations, Got, Lookup, SymbolSource, Wanted};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::{
    AliasMeta, CacheLimits, CacheSettings, Fault, Memory, ObjectStore, Operation, Put, SymcacheCache, keys,
};
use unslide_model::{ContentHash, DebugId, Quality, TenantId};
use unslide_stream::lane::Pause;
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::SYMCACHE_VERSION;

struct Bench {
    symbols: SymbolSource,
    store: ObjectStore,
    memory: Memory,
    clock: Arc<TestClock>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(CacheLimits::default())
    }

    fn with(cache_limits: CacheLimits) -> Bench {
        let (store, memory) = ObjectStore::memory();
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock::default());
        clock.stand();
        let cache = CacheSettings::new(folder.path().join("cache"), 1 << 30).with_limits(cache_limits);
        let cache = SymcacheCache::open(cache, store.clone(), clock.clone()).unwrap();
        let limits =
            BreakerLimits { debug_ids: 3, window: Duration::from_secs(60), open: Duration::from_secs(10) };
        let breaker = Arc::new(Breaker::new(limits));
        let symbols =
            SymbolSource::new(cache, store.clone(), breaker, clock.clone(), 32, Duration::from_secs(5));
        Bench { symbols, store, memory, clock, _folder: folder }
    }

    async fn fetch(&self, wanted: &[Wanted], milliseconds: u64) -> Result<FetchedSymbols, Pause> {
        let patience = Patience::fixed(Duration::from_millis(milliseconds));
        self.symbols.fetch_symbols(wanted.to_vec(), &patience).await
    }
}

fn wanted(tenant: &str, n: u8) -> Wanted {
    let id = TenantId::new(tenant).unwrap().scope(DebugId([n; 16]));
    Wanted { id, system: false, at_least: Generations::default(), derived: None }
}

/// Proves: outages
#[tokio::test]
async fn one_broken_object_can_not_keep_the_breaker_open() {
    let bench = Bench::new();
    bench.memory.fail(Operation::Get, "", Fault::Transient, None);
    bench.memory.fail(Operation::List, "", Fault::Transient, None);
    let all = [wanted("acme", 1), wanted("acme", 2), wanted("acme", 3)];
    let pause = bench.fetch(&all, 5_000).await.unwrap_err();
    assert!(pause.reason.contains("object storage fails"), "{}", pause.reason);
    assert_eq!(pause.wait, Duration::from_secs(10));
    let gets = bench.memory.call_count(Operation::Get);
    bench.fetch(&all, 5_000).await.unwrap_err();
    assert_eq!(bench.memory.call_count(Operation::Get), gets, "nothing is asked for while it is open");

    // One is wanted and fails, and the store itself does too.
    bench.clock.ahead(11);
    bench.fetch(&all[..1], 5_000).await.unwrap_err();
    assert_eq!(bench.symbols.breaker().opened(), 2);

    // The store is back, all but that one.
    bench.memory.heal();
    bench.memory.fail(
        Operation::Get,
        DebugId([1; 16]).to_compact().get(2..).unwrap(),
        Fault::Transient,
        None,
    );
    bench.clock.ahead(11);
    let fetched = bench.fetch(&all[..1], 5_000).await.unwrap();
    assert!(matches!(fetched[&all[0]], Got::Failed(_)));
    assert!(!bench.symbols.breaker().is_open());
    let fetched = bench.fetch(&all, 5_000).await.unwrap();
    assert!(matches!(fetched[&all[1]], Got::Here(ImageSymbols::Missing)));
}

/// Proves: fairness
#[tokio::test]
async fn a_step_of_the_wall_clock_keeps_neither_the_breaker_open_nor_what_is_missing() {
    for step in [-3_600, 3_600] {
        let bench = Bench::new();
        let all = [wanted("acme", 1), wanted("acme", 2), wanted("other", 3)];
        let missing = [wanted("acme", 9)];
        bench.fetch(&missing, 5_000).await.unwrap();
        let gets = bench.memory.call_count(Operation::Get);
        bench.clock.step(step);
        bench.fetch(&missing, 5_000).await.unwrap();
        assert_eq!(bench.memory.call_count(Operation::Get), gets, "it is remembered");
        bench.memory.fail(Operation::Get, "", Fault::Transient, None);
        bench.memory.fail(Operation::List, "", Fault::Transient, None);
        bench.fetch(&all, 5_000).await.unwrap_err();
        bench.memory.heal();
        bench.clock.step(-2 * step);
        let pause = bench.fetch(&all, 5_000).await.unwrap_err();
        assert_eq!(pause.wait, Duration::from_secs(10), "it is open for as long as it was to be");
        bench.clock.ahead(11);
        bench.fetch(&all, 5_000).await.unwrap();
        assert!(!bench.symbols.breaker().is_open());
        bench.clock.ahead(60);
        let gets = bench.memory.call_count(Operation::Get);
        bench.fetch(&missing, 5_000).await.unwrap();
        assert!(bench.memory.call_count(Operation::Get) > gets, "it is asked for again after a minute");
    }
}

/// Proves: fairness
#[tokio::test]
async fn symcaches_of_one_tenant_that_can_not_be_fetched_stop_nobody_else() {
    let bench = Bench::new();
    bench.memory.fail(Operation::Get, "t/noisy/", Fault::Transient, None);
    let many: Vec<Wanted> = (0..20).map(|n| wanted("noisy", n)).collect();
    let fetched = bench.fetch(&many, 5_000).await.unwrap();
    assert!(fetched.values().all(|got| matches!(got, Got::Failed(_))));
    let quiet = wanted("quiet", 1);
    let fetched = bench.fetch(std::slice::from_ref(&quiet), 10_000).await.unwrap();
    assert!(matches!(fetched[&quiet], Got::Here(ImageSymbols::Missing)));
    assert_eq!(bench.symbols.breaker().opened(), 0);

    // Where the store fails as well when it is asked, it is at fault, and no report loses a try.
    bench.memory.fail(Operation::List, "", Fault::Transient, None);
    bench.clock.ahead(120);
    bench.fetch(&many, 5_000).await.unwrap_err();
    assert!(bench.symbols.breaker().is_open());
}

/// Proves: fairness
#[tokio::test]
async fn symcaches_that_are_too_large_are_no_fault_of_the_store() {
    let bench = Bench::with(CacheLimits { largest_bytes: 1 << 20, ..CacheLimits::default() });
    // Nor is it asked.
    bench.memory.fail(Operation::List, "", Fault::Transient, None);
    let many: Vec<Wanted> = (0..20).map(|n| wanted("noisy", n)).collect();
    for one in &many {
        let key = keys::for_symbols(one.id.clone()).alias(SYMCACHE_VERSION);
        bench.store.put(&key, vec![0; (1 << 20) + 1].into(), &Put::default()).await.unwrap();
    }
    let fetched = bench.fetch(&many, 5_000).await.unwrap();
    assert!(fetched.values().all(|got| matches!(got, Got::Failed(_))));
    assert!(!bench.symbols.breaker().is_open());
}

/// Proves: fairness
#[tokio::test]
async fn downloads_of_one_tenant_that_hang_leave_room_for_another() {
    let bench = Bench::new();
    let hold = bench.memory.hold(Operation::Get, "t/noisy/");
    let many: Vec<Wanted> = (0..100).map(|n| wanted("noisy", n)).collect();
    let fetched = bench.fetch(&many, 50).await.unwrap();
    assert!(fetched.values().all(|got| matches!(got, Got::Cold)));
    let under_way = bench.symbols.under_way();
    assert!((1..=16).contains(&under_way), "{under_way} fetches are under way");
    let quiet = wanted("quiet", 1);
    let fetched = bench.fetch(std::slice::from_ref(&quiet), 10_000).await.unwrap();
    assert!(matches!(fetched[&quiet], Got::Here(ImageSymbols::Missing)));

    // Nobody waits for them any more, and they go on.
    drop(hold);
    let known = loop {
        let fetched = bench.fetch(&many[..1], 5_000).await.unwrap();
        if let Got::Here(cached) = &fetched[&many[0]] {
            break cached.clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(matches!(known, ImageSymbols::Missing));
    assert_eq!(bench.memory.call_count(Operation::Get), under_way + 1, "each once");
}

/// Retries of one report ask for the same symcache again and again, in one batch with those of others.
/// Proves: outages
#[tokio::test(start_paused = true)]
async fn a_download_that_hangs_is_waited_for_once_and_not_by_every_batch() {
    let bench = Bench::new();
    let hold = bench.memory.hold(Operation::Get, "t/acme/");
    let hangs = [wanted("acme", 1)];
    let took = async |wanted: &[Wanted]| {
        let begun = tokio::time::Instant::now();
        let fetched = bench.fetch(wanted, 5_000).await.unwrap();
        assert!(fetched.values().all(|got| matches!(got, Got::Cold)));
        begun.elapsed()
    };
    assert!(took(&hangs).await >= Duration::from_secs(5));
    for _ in 0..20 {
        assert_eq!(took(&hangs).await, Duration::ZERO);
    }
    assert_eq!(bench.symbols.under_way(), 1, "nobody waits in the tenant's other places");
    // Nor for a place, where all that the tenant may have hang.
    let more: Vec<Wanted> = (2..20).map(|n| wanted("acme", n)).collect();
    assert!(took(&more).await >= Duration::from_secs(5));
    assert_eq!(took(&[wanted("acme", 20)]).await, Duration::ZERO);
    drop(hold);
    while bench.symbols.under_way() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let fetched = bench.fetch(&hangs, 5_000).await.unwrap();
    assert!(matches!(fetched[&hangs[0]], Got::Here(ImageSymbols::Missing)));
}

/// Connections open and nothing comes: the lanes that count a late symcache as a failed try pause, after seconds.
/// Proves: outages
#[tokio::test(start_paused = true)]
async fn a_silent_store_is_an_outage_and_no_late_symcache() {
    let bench = Bench::new();
    let silence = [Operation::Get, Operation::List].map(|operation| bench.memory.hold(operation, ""));
    let only = [wanted("acme", 1)];
    let begun = tokio::time::Instant::now();
    let fetched = bench.fetch(&only, 200).await.unwrap();
    assert!(matches!(fetched[&only[0]], Got::Cold), "the first tier costs no try");
    let pause = bench.fetch(&only, 5_000).await.unwrap_err();
    assert!(pause.reason.contains("did not answer within 8 s"), "{}", pause.reason);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(bench.symbols.breaker().is_open());
    // The next probe finds the same.
    bench.clock.ahead(11);
    bench.fetch(&only, 5_000).await.unwrap_err();
    drop(silence);
    while bench.symbols.under_way() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.clock.ahead(11);
    let fetched = bench.fetch(&only, 5_000).await.unwrap();
    assert!(matches!(fetched[&only[0]], Got::Here(ImageSymbols::Missing)));
    assert!(!bench.symbols.breaker().is_open());
}

/// Proves: outages
#[tokio::test]
async fn a_derived_object_is_fetched_once_and_its_absence_costs_no_symbols() {
    let bench = Bench::new();
    let derived = |n| Wanted { derived: Some("table-v1"), ..wanted("acme", n) };
    let all = [wanted("acme", 1), derived(1)];
    let look_up =
        |fetched: Option<&FetchedSymbols>, last| bench.symbols.look_up_symbols(all.to_vec(), fetched, last);
    assert!(matches!(look_up(None, false), Lookup::Wants(_)));
    bench.fetch(&all, 5_000).await.unwrap();
    let gets = bench.memory.call_count(Operation::Get);
    let Lookup::Answers(answers) = look_up(None, false) else { panic!("both are known to be missing") };
    assert!(answers.list_derived().is_empty() && !answers.lacks_derived);
    assert_eq!(bench.memory.call_count(Operation::Get), gets, "an absence is remembered");

    let bytes = b"a table";
    let sha256 = ContentHash(Sha256::digest(bytes).into());
    let meta = AliasMeta { generation: 1, quality: Quality::Dwarf, sha256, object: ContentHash([1; 32]) };
    let key = keys::for_symbols(&all[0].id).derived("table-v1");
    let put = Put { metadata: meta.to_metadata(), ..Put::default() };
    bench.store.put(&key, bytes.to_vec().into(), &put).await.unwrap();
    bench.clock.ahead(61);
    let fetched = bench.fetch(&all, 5_000).await.unwrap();
    let Lookup::Answers(answers) = look_up(Some(&fetched), false) else { panic!("both are answered") };
    let found: Vec<_> = answers.list_derived().iter().map(|one| (one.name, one.bytes.to_vec())).collect();
    assert_eq!(found, [("table-v1", bytes.to_vec())]);

    // Object storage fails for another image: the report waits as for symbols, and at last goes without.
    bench.memory.fail(Operation::Get, "derived-", Fault::Transient, None);
    let all = [wanted("acme", 2), derived(2)];
    let fetched = bench.fetch(&all, 5_000).await.unwrap();
    let look_up = |last| bench.symbols.look_up_symbols(all.to_vec(), Some(&fetched), last);
    assert!(matches!(look_up(false), Lookup::Held(held) if held.failure.is_some()));
    let Lookup::Answers(answers) = look_up(true) else { panic!("it was the last try") };
    assert!(answers.lacks_derived);
    assert!(matches!(answers.symbols[&all[0].id.id], ImageSymbols::Missing));
}
