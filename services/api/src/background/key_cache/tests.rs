//! Tests of the cache without a database.

use super::*;
use futures::future::{pending, ready};
use std::convert::Infallible;
use time::OffsetDateTime;
use tokio::time::Instant;
use unslide_model::FixedClock;
use unslide_store::Uuid;
use unslide_store::keys::KeyKind;
use unslide_store::tenants::QuotaLimits;

const SECOND: i64 = 1_000_000;
const OUTAGE: Duration = Duration::from_secs(90);

fn tenant(slug: &str) -> TenantId {
    TenantId::new(slug).unwrap()
}

const PUBLIC_KEYS: KeyKind = KeyKind {
    name: "test",
    prefix: "tst_",
    place: KeyPlace::Path("/test/"),
    counts_in_outages: true,
    ..keys::API_KEYS
};

/// A text with a correct checksum.
const PUBLIC_TEXT: &str = "tst_myktf9x7myktf9x7myktf9d8jh";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PublicType;

impl KeyType for PublicType {
    const DECLARATION: &'static KeyKind = &PUBLIC_KEYS;
}

fn public_proof() -> KeyProof {
    KeyProof::parse(&PUBLIC_KEYS, PUBLIC_TEXT).unwrap()
}

fn owner() -> KeyOwner {
    KeyOwner {
        kind: &keys::API_KEYS,
        key_id: Uuid::nil(),
        prefix: "a".repeat(8),
        tenant: tenant("acme"),
        tenant_version: 1,
        active: true,
        scopes: Vec::new(),
        apps: Vec::new(),
        expires_at: None,
        limits: QuotaLimits::default(),
        last_used_at: None,
    }
}

/// A process that has looked a key up at the start of its clock.
struct Process {
    cache: KeyCache,
    clock: FixedClock,
}

type FoundOwner = Result<Option<KeyOwner>, &'static str>;
type Found = Result<Option<Arc<KeyOwner>>, &'static str>;

impl Process {
    async fn start() -> Process {
        let process = Process { cache: KeyCache::new(OUTAGE), clock: FixedClock::at_micros(0) };
        assert!(process.has(Ok(Some(owner()))).await.unwrap());
        process
    }

    fn proof() -> KeyProof {
        KeyProof::parse(&keys::API_KEYS, &format!("unslide_{}_{}", "a".repeat(8), "b".repeat(40))).unwrap()
    }

    async fn has(&self, found: FoundOwner) -> Result<bool, &'static str> {
        Ok(self.cache.get(&self.clock, Process::proof(), ready(found)).await?.is_some())
    }

    /// Returns true if the key is cached. The database must not be asked.
    async fn is_cached(&self) -> bool {
        let unasked = std::future::poll_fn(|_| panic!("the database is asked"));
        let found: Result<_, Infallible> = self.cache.get(&self.clock, Process::proof(), unasked).await;
        found.is_ok_and(|found| found.is_some())
    }

    fn wait(&self, micros: i64) {
        self.clock.advance_micros(micros);
    }

    /// One refresh, of which the database says `found`.
    fn refresh(&self, found: Option<KeyOwner>) {
        let mut state = self.cache.0.lock();
        let (start, asked) = state.keys_in_use(&self.clock);
        let found = asked.iter().cloned().zip(found).collect();
        state.confirm(&asked, found, start);
    }
}

/// Proves: keys
#[tokio::test]
async fn a_key_in_use_is_confirmed_by_refreshes_and_forgotten_with_the_first_that_lacks_it() {
    let process = Process::start().await;
    for _ in 0..100 {
        process.wait(SECOND / 2);
        process.refresh(Some(owner()));
        process.wait(SECOND / 2 - 1);
        assert!(process.is_cached().await);
    }
    process.refresh(None);
    assert!(!process.has(Ok(None)).await.unwrap());
}

/// Proves: keys
#[tokio::test]
async fn a_key_that_was_not_confirmed_for_a_second_is_looked_up() {
    let process = Process::start().await;
    process.wait(SECOND - 1);
    assert!(process.is_cached().await);
    process.wait(1);
    assert!(!process.has(Ok(None)).await.unwrap());
    assert!(process.has(Err("it is not cached")).await.is_err());
}

/// Proves: keys
#[tokio::test]
async fn a_key_counts_with_what_the_last_refresh_says_of_it() {
    let process = Process::start().await;
    process.refresh(Some(KeyOwner { active: false, tenant_version: 2, ..owner() }));
    let found: Found = process.cache.get(&process.clock, Process::proof(), pending()).await;
    assert_eq!(found.unwrap().map(|found| (found.active, found.tenant_version)), Some((false, 2)));
    process.refresh(Some(KeyOwner { expires_at: Some(OffsetDateTime::UNIX_EPOCH), ..owner() }));
    assert!(!process.has(Ok(None)).await.unwrap(), "it has expired");
}

/// Proves: keys
#[tokio::test]
async fn a_change_by_this_process_counts_for_the_next_request() {
    let process = Process::start().await;
    process.cache.forget(&tenant("umbrella"));
    assert!(process.is_cached().await);
    process.cache.forget(&tenant("acme"));
    // The change comes while the key is looked up: the answer is used and not cached.
    let cache = process.cache.clone();
    let overtaken = async move {
        cache.clear();
        FoundOwner::Ok(Some(owner()))
    };
    let found = process.cache.get(&process.clock, Process::proof(), overtaken).await;
    assert!(found.unwrap().is_some());
    assert!(!process.has(Ok(None)).await.unwrap());
}

/// Proves: keys
#[tokio::test]
async fn in_an_outage_a_key_counts_for_the_set_time_after_it_was_confirmed() {
    let process = Process::start().await;
    process.wait(89 * SECOND);
    assert!(process.has(Err("down")).await.unwrap());
    // The next requests do not ask.
    process.wait(SECOND - 1);
    assert!(process.is_cached().await);
    process.wait(1);
    assert!(process.has(Err("down")).await.is_err());
    assert!(process.has(Ok(Some(owner()))).await.unwrap());
    process.wait(SECOND);
    assert!(!process.has(Ok(None)).await.unwrap(), "the outage is over");
}

#[tokio::test]
async fn without_requests_nothing_is_known_of_an_outage() {
    let process = Process::start().await;
    process.wait(2 * SECOND);
    assert!(process.has(Err("down")).await.unwrap());
    process.wait(IN_USE_MICROS);
    process.refresh(None);
    assert!(!process.has(Ok(None)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_cached_key_waits_a_moment_for_the_database() {
    let process = Process::start().await;
    process.wait(2 * SECOND);
    let start = Instant::now();
    let found: Found = process.cache.get(&process.clock, Process::proof(), pending()).await;
    assert!(found.unwrap().is_some());
    assert!(start.elapsed() < 2 * LOOK_UP_TIMEOUT);
    process.wait(i64::try_from(OUTAGE.as_micros()).unwrap());
    let waits = process.cache.get(&process.clock, Process::proof(), pending::<FoundOwner>());
    assert!(timeout(Duration::from_secs(9), waits).await.is_err());
}

/// Proves: isolation
#[tokio::test]
async fn a_key_is_found_only_as_a_key_of_its_kind() {
    let process = Process::start().await;
    let as_public = Presented::<PublicType>::from_owner(Arc::new(owner()));
    assert!(as_public.is_none());
    let public = KeyOwner { kind: &PUBLIC_KEYS, ..owner() };
    assert!(public.clone().into_principal().is_none());
    assert!(Presented::<ApiKeyType>::from_owner(Arc::new(public.clone())).is_none());
    // Two kinds are two entries, whatever their prefixes and secrets are.
    let found: Found = process.cache.get(&process.clock, public_proof(), ready(Ok(Some(public)))).await;
    assert_eq!(found.unwrap().unwrap().kind, &PUBLIC_KEYS);
    assert!(process.is_cached().await);
}

#[tokio::test]
async fn a_text_in_a_path_that_is_no_key_is_known_for_a_minute() {
    let process = Process::start().await;
    let look_up =
        async |found: FoundOwner| process.cache.get(&process.clock, public_proof(), ready(found)).await;
    let public = || Ok(Some(KeyOwner { kind: &PUBLIC_KEYS, ..owner() }));
    assert!(look_up(Ok(None)).await.unwrap().is_none());
    process.wait(60 * SECOND - 1);
    assert!(look_up(public()).await.unwrap().is_none(), "the database is not asked");
    process.cache.forget(&tenant("acme"));
    assert!(look_up(public()).await.unwrap().is_some(), "a closed key was opened again");
    process.cache.clear();
    assert!(look_up(Ok(None)).await.unwrap().is_none());
    process.wait(60 * SECOND);
    assert!(look_up(public()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_public_key_that_was_looked_up_counts_for_the_whole_outage() {
    let process = Process::start().await;
    let look_up =
        async |found: FoundOwner| process.cache.get(&process.clock, public_proof(), ready(found)).await;
    assert!(look_up(Ok(Some(KeyOwner { kind: &PUBLIC_KEYS, ..owner() }))).await.unwrap().is_some());
    process.wait(3_600 * SECOND);
    assert!(look_up(Err("down")).await.unwrap().is_some());
    assert!(look_up(Ok(None)).await.unwrap().is_some(), "the next request does not ask");
    assert!(process.has(Err("down")).await.is_err(), "an API key counts for `api.key_outage`");
}
