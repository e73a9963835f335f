//! Symbols for a batch: which are here, and fetching those that are not.

use futures::{StreamExt, stream};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use unslide_artifacts::{CacheError, Cached, Hint, SymcacheCache};
use unslide_model::{DebugId, Scoped, TenantId};
use unslide_stream::lane::Pause;
use unslide_symbolicate::{ImageSymbols, Need};

/// Downloads of one batch at the same time; the cache has a bound of its own.
const AT_ONCE: usize = 64;
/// The pause after a failure that may pass by itself.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a failure that an operator has to mend.
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// A symcache that a report wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Whose, and which.
    pub id: Scoped<DebugId>,
    /// True where the image's path is the operating system's.
    pub system: bool,
    /// What the asker knows of the newest generation.
    pub at_least: Generations,
}

/// The generations that an answer must not be older than.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generations {
    /// Of the tenant's own symbols.
    pub tenant: Option<u64>,
    /// Of the system's.
    pub system: Option<u64>,
}

impl Generations {
    fn hint(self) -> Hint {
        Hint { tenant: self.tenant, system: self.system }
    }
}

impl Wanted {
    /// What a report needs, of one tenant.
    pub fn of(tenant: &TenantId, needs: &[Need], at_least: impl Fn(&Need) -> Generations) -> Vec<Wanted> {
        needs
            .iter()
            .map(|need| Wanted {
                id: tenant.scope(need.debug_id),
                system: need.system,
                at_least: at_least(need),
            })
            .collect()
    }
}

/// What was fetched for a batch.
pub type Fetched = HashMap<Wanted, Cached>;

/// What a report's images are answered with.
pub type Answers = HashMap<DebugId, ImageSymbols>;

/// The cache, kept fresh by the log of symbol events.
#[derive(Clone)]
pub struct Symbols {
    cache: SymcacheCache,
    fetch: Duration,
}

impl Symbols {
    /// Symbols from `cache`; a batch waits at most `fetch` for them.
    pub fn new(cache: SymcacheCache, fetch: Duration) -> Symbols {
        Symbols { cache, fetch }
    }

    /// The answers to everything that is wanted, where all are known without waiting. `fetched` are
    /// asked first: they stay whatever the cache evicts.
    pub fn at_hand(&self, wanted: &[Wanted], fetched: &Fetched) -> Option<Answers> {
        let mut answers = Answers::with_capacity(wanted.len());
        for one in wanted {
            let symbols = match fetched.get(one) {
                Some(cached) => cached.symbols(),
                None => self.cache.peek(&one.id, one.system, one.at_least.hint())?.symbols(),
            };
            answers.insert(one.id.id, symbols);
        }
        Some(answers)
    }

    /// Fetches what is wanted, each once however many reports want it.
    ///
    /// # Errors
    /// [`Pause`] where one can't be had for now: an answer without it would be wrong for good. What
    /// did arrive is kept by the cache.
    pub async fn fetch(&self, wanted: HashSet<Wanted>) -> Result<Fetched, Pause> {
        let all = stream::iter(wanted).map(|wanted| async move {
            let answer = self.cache.get(&wanted.id, wanted.system, wanted.at_least.hint()).await;
            (wanted, answer)
        });
        let collected = all.buffer_unordered(AT_ONCE).collect::<Vec<_>>();
        let Ok(answers) = tokio::time::timeout(self.fetch, collected).await else {
            let reason = format!("symcaches did not arrive within {:?}; the downloads go on", self.fetch);
            return Err(Pause { reason, wait: PAUSE });
        };
        answers
            .into_iter()
            .map(|(wanted, answer)| match answer {
                Ok(cached) => Ok((wanted, cached)),
                Err(error) => Err(pause(&wanted, &error)),
            })
            .collect()
    }
}

fn pause(wanted: &Wanted, error: &CacheError) -> Pause {
    let reason = format!("symbols of {} for {} can't be fetched: {error}", wanted.id.id, wanted.id.tenant);
    Pause { reason, wait: if error.is_transient() { PAUSE } else { LONG_PAUSE } }
}
