//! Symbols for a batch: looks them up in the cache and fetches the missing ones.

pub mod breaker;
pub mod patience;
pub mod store_check;
mod used_symbols;
mod wanted;
pub mod warm_start;

use crate::symbols::breaker::{Breaker, Verdict};
use crate::symbols::patience::Patience;
use crate::symbols::store_check::StoreCheck;
use crate::symbols::wanted::in_turn;
pub use crate::symbols::wanted::{Generations, Wanted};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use unslide_artifacts::{CacheError, DerivedContents, ObjectStore, SymcacheCache};
use unslide_model::{Clock, DebugId, TenantId};
use unslide_stream::lane::Pause;
use unslide_symbolicate::{ImageDerivative, ImageSymbols};

/// Limit of concurrent fetches, including those that no report waits for any more. The cache has a lower
/// limit of downloads.
const CONCURRENT_FETCHES_LIMIT: usize = 1_024;
/// Divisor for the share of the cache's downloads that one tenant may use. A tenant with many requests or
/// hanging downloads leaves the rest to other tenants.
const OF_ONE_TENANT: usize = 4;
/// Pause after a failure that an operator has to fix.
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// Pause while object storage does not answer.
const OUTAGE_PAUSE: Duration = Duration::from_secs(5);

/// Result of a fetch of one symcache.
#[derive(Clone, Debug)]
pub enum Got {
    /// The cache's answer about the symbols.
    Here(ImageSymbols),
    /// The cache's answer about a derived object.
    Derived(DerivedContents),
    /// The symcache has not arrived in time; the download continues.
    Cold,
    /// The symcache cannot be fetched for now, with the reason.
    Failed(Arc<str>),
}

/// Results of the fetches for a batch.
pub type FetchedSymbols = HashMap<Wanted, Got>;

/// Symbols of a report's images, and derived objects of the image with the crash.
#[derive(Default)]
pub struct Answers {
    pub symbols: HashMap<DebugId, ImageSymbols>,
    /// Debug ids of symcaches that were found; `true` for an image of the operating system.
    pub found: Vec<(DebugId, bool)>,
    derived: Vec<(DebugId, &'static str, Bytes)>,
    /// True if a derived object could not be fetched: findings may lack what an earlier revision has.
    pub lacks_derived: bool,
}

impl Answers {
    /// Returns the derived objects for the context of a symbolication.
    pub fn list_derived(&self) -> Vec<ImageDerivative<'_>> {
        let all = self.derived.iter();
        all.map(|(debug_id, name, bytes)| ImageDerivative { debug_id: *debug_id, name, bytes }).collect()
    }
}

/// Reason why a report has no answers now.
#[derive(Clone, Debug)]
pub struct UnfetchedSymbols {
    /// The first image that it waits for.
    pub id: DebugId,
    /// The failure; `None` if the symcache just has not arrived in time.
    pub failure: Option<Arc<str>>,
}

impl UnfetchedSymbols {
    /// Returns the reason for the record's headers and the log.
    pub fn describe_reason(&self) -> &str {
        self.failure.as_deref().unwrap_or("a symcache did not arrive in time")
    }
}

/// The result of looking up a report's images.
pub enum Lookup {
    Answers(Answers),
    /// These symcaches have not been fetched for the batch yet.
    Wants(Vec<Wanted>),
    /// Some symcaches could not be fetched.
    Held(UnfetchedSymbols),
}

/// The cache, kept fresh by the log of symbol events.
#[derive(Clone)]
pub struct SymbolSource {
    cache: SymcacheCache,
    store: Arc<StoreCheck>,
    breaker: Arc<Breaker>,
    clock: Arc<dyn Clock>,
    at_once: Arc<Semaphore>,
    of_one_tenant: usize,
    tenants: Arc<Mutex<HashMap<TenantId, Arc<Fetches>>>>,
    /// Time limit of a fetch that probes the store. A fetch that takes longer counts as hanging.
    probe: Duration,
}

/// The fetches of one tenant.
struct Fetches {
    permits: Arc<Semaphore>,
    /// Fetches under way, with the time at which they began.
    begun: Mutex<HashMap<Wanted, Instant>>,
}

impl Fetches {
    /// Returns true if the tenant has no permit left and none of its fetches began within `age`.
    fn all_hang(&self, age: Duration) -> bool {
        let begun = self.begun.lock();
        self.permits.available_permits() == 0 && begun.values().all(|at| at.elapsed() >= age)
    }
}

/// A fetch under way; dropping it marks the fetch as ended.
struct UnderWay {
    fetches: Arc<Fetches>,
    wanted: Wanted,
    _permits: [OwnedSemaphorePermit; 2],
}

impl UnderWay {
    fn begin(fetches: Arc<Fetches>, wanted: Wanted, permits: [OwnedSemaphorePermit; 2]) -> UnderWay {
        fetches.begun.lock().entry(wanted.clone()).or_insert_with(Instant::now);
        UnderWay { fetches, wanted, _permits: permits }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.fetches.begun.lock().remove(&self.wanted);
    }
}

impl SymbolSource {
    /// Creates a source that reads symbols from `cache`, which fetches them from `store` while `breaker`
    /// allows it. `downloads` is the cache's limit of concurrent downloads. `probe` is the time limit of a
    /// fetch that may close the breaker again.
    pub fn new(
        cache: SymcacheCache,
        store: ObjectStore,
        breaker: Arc<Breaker>,
        clock: Arc<dyn Clock>,
        downloads: usize,
        probe: Duration,
    ) -> SymbolSource {
        let at_once = Arc::new(Semaphore::new(CONCURRENT_FETCHES_LIMIT));
        let of_one_tenant = (downloads / OF_ONE_TENANT).max(1);
        let store = Arc::new(StoreCheck::new(store, Arc::clone(&breaker), Arc::clone(&clock)));
        SymbolSource { cache, store, breaker, clock, at_once, of_one_tenant, tenants: Arc::default(), probe }
    }

    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Returns the number of fetches under way, including those that no caller waits for.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        CONCURRENT_FETCHES_LIMIT - self.at_once.available_permits()
    }

    /// Looks up everything that is wanted. `fetched` takes precedence, because the cache may have evicted
    /// entries. If this is the `last` lookup, missing symcaches are answered as `FetchingFailed`.
    pub fn look_up_symbols(
        &self,
        wanted: Vec<Wanted>,
        fetched: Option<&FetchedSymbols>,
        last: bool,
    ) -> Lookup {
        let mut answers = Answers::default();
        let mut held: Option<UnfetchedSymbols> = None;
        for one in &wanted {
            let got = fetched.and_then(|fetched| fetched.get(one)).cloned();
            let got = got.or_else(|| self.peek(one));
            match (got, fetched) {
                (Some(Got::Here(symbols)), _) => {
                    if matches!(symbols, ImageSymbols::Found { .. }) {
                        answers.found.push((one.id.id, one.system));
                    }
                    answers.symbols.insert(one.id.id, symbols);
                }
                (Some(Got::Derived(DerivedContents::Found(bytes))), _) => {
                    answers.derived.extend(one.derived.map(|name| (one.id.id, name, bytes)));
                }
                (Some(Got::Derived(DerivedContents::Missing)), _) => {}
                (None, None) => return Lookup::Wants(wanted),
                // Without a derived object the report lacks a finding only.
                (Some(Got::Cold | Got::Failed(_)) | None, _) if last => match one.derived {
                    None => drop(answers.symbols.insert(one.id.id, ImageSymbols::FetchingFailed)),
                    Some(_) => answers.lacks_derived = true,
                },
                (Some(Got::Failed(why)), _) => {
                    // A failure says more than a delay.
                    if held.as_ref().is_none_or(|held| held.failure.is_none()) {
                        held = Some(UnfetchedSymbols { id: one.id.id, failure: Some(why) });
                    }
                }
                // It was cached at the first lookup and has been evicted since.
                (Some(Got::Cold) | None, _) => {
                    held.get_or_insert(UnfetchedSymbols { id: one.id.id, failure: None });
                }
            }
        }
        held.map_or(Lookup::Answers(answers), Lookup::Held)
    }

    /// Returns the answer of the cache if it is known without waiting.
    fn peek(&self, wanted: &Wanted) -> Option<Got> {
        let Wanted { id, system, at_least, derived } = wanted;
        match derived {
            None => self.cache.peek(id, *system, at_least.to_hint()).map(Got::Here),
            Some(name) => self.cache.peek_derived(id, name, at_least.to_hint()).map(Got::Derived),
        }
    }

    /// Fetches each wanted symcache once, however many reports want it, and takes the tenants in turn. A
    /// symcache is cold if it has not arrived within `patience`, counted from the beginning of its download.
    /// The download continues. So a batch waits once for a hanging download, and later batches do not wait
    /// for it.
    ///
    /// # Errors
    /// Returns [`Pause`] if an operator has to act, and while the breaker is open.
    pub async fn fetch_symbols(
        &self,
        wanted: Vec<Wanted>,
        patience: &Patience,
    ) -> Result<FetchedSymbols, Pause> {
        let wanted = in_turn(wanted);
        let mut fetched = FetchedSymbols::with_capacity(wanted.len());
        let mut probed = false;
        match self.breaker.request_permission(self.clock.monotonic_micros()) {
            Verdict::Closed => {}
            Verdict::Open { wait_micros, reason } => return Err(pause_while_open(wait_micros, &reason)),
            Verdict::Probe => (fetched, probed) = (self.probe_store(&wanted).await?, true),
        }
        let rest = wanted.iter().filter(|one| !fetched.contains_key(*one)).cloned().collect();
        fetched.extend(self.try_all(rest, patience).await?);
        // A lane that waits as long as a probe counts a late symcache as a failed try: not for a silent store.
        // Nor does a failure of a probe count while the store is failing again.
        let counts_late = patience.least() >= self.probe;
        let in_doubt = |got: &Got| match got {
            Got::Cold => counts_late,
            Got::Failed(_) => probed,
            Got::Here(_) | Got::Derived(_) => false,
        };
        if fetched.values().any(in_doubt) {
            self.store.run("a symcache did not arrive").await;
        }
        // The store failed, or many symcaches did: pause instead of failing each report.
        if fetched.values().any(|got| matches!(got, Got::Failed(_) | Got::Cold)) {
            self.still_closed()?;
        }
        Ok(fetched)
    }

    /// Probes whether the store works again. It does not if as many fetches fail as had to fail before. If
    /// fewer are wanted, each may be broken for its own reason, so the bucket is checked.
    async fn probe_store(&self, wanted: &[Wanted]) -> Result<FetchedSymbols, Pause> {
        let most = self.breaker.debug_ids();
        let patience = Patience::fixed(self.probe);
        let fetched = self.try_all(wanted.iter().take(most).cloned().collect(), &patience).await?;
        let here = fetched.values().any(|got| matches!(got, Got::Here(_) | Got::Derived(_)));
        let late = || format!("no symcache arrived within {:?}", self.probe);
        if here || (fetched.len() < most && self.store.run(&late()).await) {
            self.breaker.record_success(self.clock.monotonic_micros());
        } else {
            let failures = fetched.values().find_map(|got| match got {
                Got::Failed(why) => Some(why.to_string()),
                _ => None,
            });
            self.breaker.reopen(self.clock.monotonic_micros(), &failures.unwrap_or_else(late));
        }
        self.still_closed()?;
        Ok(fetched)
    }

    /// Fetches all of these concurrently and waits for them within `patience`.
    async fn try_all(&self, wanted: Vec<Wanted>, patience: &Patience) -> Result<FetchedSymbols, Pause> {
        let mut fetched = FetchedSymbols::with_capacity(wanted.len());
        let mut under_way: FuturesUnordered<_> = wanted
            .iter()
            .map(|one| async move { (one.clone(), self.fetch_one(one, patience).await) })
            .collect();
        let mut operators: Option<(usize, CacheError)> = None;
        while let Some((one, got)) = under_way.next().await {
            match got {
                Ok(got) => drop(fetched.insert(one, got)),
                Err(error) => {
                    let (many, _) = operators.get_or_insert_with(|| {
                        let (tenant, id) = (&one.id.tenant, &one.id.id);
                        tracing::error!(tenant.id = %tenant, debug.id = %id, error = %error, "symbols cannot be fetched");
                        (0, error)
                    });
                    *many += 1;
                }
            }
        }
        if let Some((many, error)) = operators {
            // The log names a tenant of one of them; readiness names none.
            let reason = format!("symbols of {many} debug ids cannot be fetched: {error}");
            return Err(Pause { reason, wait: LONG_PAUSE });
        }
        Ok(fetched)
    }

    /// Checks the store after a failure of anything that a report needs.
    ///
    /// # Errors
    /// Returns [`Pause`] if the store does not answer: no report is the cause.
    pub async fn check_store(&self, why: &str) -> Result<(), Pause> {
        if self.store.run(why).await {
            return Ok(());
        }
        let reason = format!("object storage fails, and does not answer a check: {why}");
        Err(Pause { reason, wait: OUTAGE_PAUSE })
    }

    fn still_closed(&self) -> Result<(), Pause> {
        match self.breaker.request_permission(self.clock.monotonic_micros()) {
            Verdict::Closed | Verdict::Probe => Ok(()),
            Verdict::Open { wait_micros, reason } => Err(pause_while_open(wait_micros, &reason)),
        }
    }

    /// Fetches one symcache and waits for it within `patience`.
    async fn fetch_one(&self, wanted: &Wanted, patience: &Patience) -> Result<Got, CacheError> {
        let fetches = self.fetches_for_tenant(&wanted.id.tenant);
        let now = Instant::now();
        let begun = fetches.begun.lock().get(wanted).copied();
        let is_over =
            begun.map_or_else(|| fetches.all_hang(self.probe), |begun| patience.is_over(begun, now));
        if is_over {
            return Ok(Got::Cold);
        }
        tokio::select! {
            biased;
            got = self.begin_fetch(fetches, wanted.clone()) => got,
            () = patience.wait_until_over(begun.unwrap_or(now)) => Ok(Got::Cold),
        }
    }

    /// Fetches in a separate task. The task continues, and the breaker gets its result, even if no caller
    /// waits any more.
    async fn begin_fetch(&self, fetches: Arc<Fetches>, wanted: Wanted) -> Result<Got, CacheError> {
        let permits = Arc::clone(&fetches.permits);
        let (Ok(theirs), Ok(all)) =
            (permits.acquire_owned().await, Arc::clone(&self.at_once).acquire_owned().await)
        else {
            return Ok(Got::Cold);
        };
        let under_way = UnderWay::begin(fetches, wanted.clone(), [theirs, all]);
        let (cache, breaker, clock) =
            (self.cache.clone(), Arc::clone(&self.breaker), Arc::clone(&self.clock));
        let store = Arc::clone(&self.store);
        let task = tokio::spawn(async move {
            let hint = wanted.at_least.to_hint();
            let answer = match wanted.derived {
                None => cache.get(&wanted.id, wanted.system, hint).await.map(Got::Here),
                Some(name) => cache.get_derived(&wanted.id, name, hint).await.map(Got::Derived),
            };
            match &answer {
                Ok(_) => breaker.record_success(clock.monotonic_micros()),
                // Only once the store answers is the object at fault, and its report loses a try.
                Err(CacheError::Transient(why)) => {
                    if !breaker.is_open() && store.run(why).await {
                        breaker.record_failure(&wanted.id, clock.monotonic_micros(), why);
                    }
                }
                // The cause is the object or its tenant, not the store.
                Err(CacheError::NoRoom(_)) => {}
                // A lane that receives this error pauses, and readiness reports the reason.
                Err(_) => {}
            }
            drop(under_way);
            answer
        });
        match task.await {
            Ok(Ok(got)) => Ok(got),
            Ok(Err(error)) if error.is_transient() => Ok(Got::Failed(error.to_string().into())),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Got::Failed("the download was given up".into())),
        }
    }

    fn fetches_for_tenant(&self, tenant: &TenantId) -> Arc<Fetches> {
        let mut tenants = self.tenants.lock();
        if tenants.len() > CONCURRENT_FETCHES_LIMIT {
            tenants.retain(|_, fetches| Arc::strong_count(fetches) > 1);
        }
        let fetches = tenants.entry(tenant.clone());
        Arc::clone(fetches.or_insert_with(|| {
            let permits = Arc::new(Semaphore::new(self.of_one_tenant));
            Arc::new(Fetches { permits, begun: Mutex::default() })
        }))
    }
}

fn pause_while_open(wait_micros: i64, reason: &str) -> Pause {
    let wait = Duration::from_micros(u64::try_from(wait_micros).unwrap_or(0));
    Pause { reason: format!("object storage fails, nothing is fetched for now: {reason}"), wait }
}
