//! The symbols that a report can use, and the tenant's rules of symbolication, for operations that symbolicate on
//! their own.
//!
//! Symbols come from object storage through this machine's cache, which follows changes in the topic of
//! symbol events. The database is queried only for rules that are not cached.

use crate::problem::Problem;
use crate::reports::rules_cache::SymbolicationRules;
use crate::reports::symbolication::Symbolication;
use bytes::Bytes;
use futures::{StreamExt, stream};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use unslide_artifacts::{DerivedContents, Hint};
use unslide_model::{DebugId, TenantId};
use unslide_store::groups::rules;
use unslide_store::keys::Principal;
use unslide_store::tenants::analyses;
use unslide_symbolicate::grouping::GroupingRules;
use unslide_symbolicate::{Analysis, ImageDerivative, ImageSymbols, SymbolNeed, enabled_analyses};

/// Maximum number of images of one report with fetched symbols; further images count as not fetched. Real
/// reports have frames in a few dozen images.
const MOST_IMAGES: usize = 1_000;
/// Concurrent downloads for one report.
const CONCURRENT_DOWNLOADS_LIMIT: usize = 16;

/// Symbols by debug id, the tenant's rules, and the analyses that it uses.
#[derive(Debug, Default)]
pub struct SymbolsOfReport {
    symbols: HashMap<DebugId, ImageSymbols>,
    pub rules: Arc<SymbolicationRules>,
    /// The analyses that are on for the tenant.
    pub analyses: Vec<Analysis>,
    /// Derived objects of the image with the crash.
    derived: Vec<(DebugId, &'static str, Bytes)>,
    /// The derived objects to fetch.
    cold_derived: Vec<(DebugId, &'static str)>,
}

impl SymbolsOfReport {
    /// Returns the cached symbols of a report without waiting, and the symbols to fetch.
    pub fn from_cache(
        symbolication: &Symbolication,
        tenant: &TenantId,
        mut needs: Vec<SymbolNeed>,
        rules: Arc<SymbolicationRules>,
    ) -> (SymbolsOfReport, Vec<SymbolNeed>) {
        let too_many = needs.split_off(needs.len().min(MOST_IMAGES));
        let mut symbols: HashMap<DebugId, ImageSymbols> =
            too_many.iter().map(|need| (need.debug_id, ImageSymbols::FetchingFailed)).collect();
        let mut cold = Vec::new();
        for need in needs {
            match symbolication.symcaches.peek(&tenant.scope(need.debug_id), need.system, Hint::default()) {
                Some(known) => drop(symbols.insert(need.debug_id, known)),
                None => cold.push(need),
            }
        }
        let analyses = enabled_analyses(&symbolication.analyses, &rules.analysis_switches);
        (SymbolsOfReport { symbols, rules, analyses, ..SymbolsOfReport::default() }, cold)
    }

    /// Adds the cached derived objects that the analyses read of the image with the crash.
    #[must_use]
    pub fn with_derived(
        mut self,
        symbolication: &Symbolication,
        tenant: &TenantId,
        crashed: Option<DebugId>,
    ) -> SymbolsOfReport {
        let names: BTreeSet<&str> =
            self.analyses.iter().flat_map(|analysis| analysis.derived).map(|object| object.name).collect();
        for (id, name) in crashed.iter().flat_map(|id| names.iter().map(move |name| (*id, *name))) {
            match symbolication.symcaches.peek_derived(&tenant.scope(id), name, Hint::default()) {
                Some(DerivedContents::Found(bytes)) => self.derived.push((id, name, bytes)),
                Some(DerivedContents::Missing) => {}
                None => self.cold_derived.push((id, name)),
            }
        }
        self
    }

    /// Returns true if nothing of `cold` and no derived object is to be fetched.
    #[must_use]
    pub fn is_complete(&self, cold: &[SymbolNeed]) -> bool {
        cold.is_empty() && self.cold_derived.is_empty()
    }

    /// Returns the derived objects for the analyses.
    #[must_use]
    pub fn list_derived(&self) -> Vec<ImageDerivative<'_>> {
        let all = self.derived.iter();
        all.map(|(debug_id, name, bytes)| ImageDerivative { debug_id: *debug_id, name, bytes }).collect()
    }

    /// Fetches the rest from object storage, as a symbolizer does. A failed fetch is recorded for its image
    /// and fails no report.
    pub async fn fetch_rest(
        mut self,
        symbolication: &Symbolication,
        tenant: &TenantId,
        cold: Vec<SymbolNeed>,
    ) -> SymbolsOfReport {
        let end = Instant::now() + Duration::from_secs(symbolication.capacity.limits.request_seconds) / 2;
        let fetched = stream::iter(cold).map(|need| async move {
            let got = download_symbols(symbolication, tenant, &need, end).await;
            (need.debug_id, got.unwrap_or(ImageSymbols::FetchingFailed))
        });
        self.symbols.extend(fetched.buffer_unordered(CONCURRENT_DOWNLOADS_LIMIT).collect::<Vec<_>>().await);
        for (id, name) in std::mem::take(&mut self.cold_derived) {
            if let Some(bytes) = download_derived(symbolication, tenant, id, name, end).await {
                self.derived.push((id, name, bytes));
            }
        }
        self
    }

    /// Returns the symbols of a debug id.
    pub fn get(&self, id: &DebugId) -> Option<&ImageSymbols> {
        self.symbols.get(id)
    }
}

/// Fetches everything that a report needs. `crashed` is the image with the crash, if it is known.
pub async fn fetch_symbols(
    symbolication: &Symbolication,
    principal: &Principal,
    needs: Vec<SymbolNeed>,
    crashed: Option<DebugId>,
) -> Result<SymbolsOfReport, Problem> {
    let tenant = &principal.tenant;
    let rules = symbolication_rules(symbolication, principal).await?;
    let (cached, cold) = SymbolsOfReport::from_cache(symbolication, tenant, needs, rules);
    Ok(cached.with_derived(symbolication, tenant, crashed).fetch_rest(symbolication, tenant, cold).await)
}

/// Downloads symbols that are not cached. Returns `None` if they do not come before `end`; the download then
/// goes on.
async fn download_symbols(
    symbolication: &Symbolication,
    tenant: &TenantId,
    need: &SymbolNeed,
    end: Instant,
) -> Option<ImageSymbols> {
    // Limits the tenant's share of the cache's downloads, however many its reports need at once.
    let _permit = await_before(end, symbolication.capacity.permits.downloads.acquire(tenant, 1)).await?;
    let id = tenant.scope(need.debug_id);
    let got = await_before(end, symbolication.symcaches.get(&id, need.system, Hint::default())).await?;
    Some(got.unwrap_or_else(|error| {
        tracing::warn!(error = %error, "symbols could not be fetched for a request");
        ImageSymbols::FetchingFailed
    }))
}

/// Downloads a derived object. Returns `None` if there is none, or if it does not come before `end`: the report then
/// lacks a finding only.
async fn download_derived(
    symbolication: &Symbolication,
    tenant: &TenantId,
    id: DebugId,
    name: &'static str,
    end: Instant,
) -> Option<Bytes> {
    let _permit = await_before(end, symbolication.capacity.permits.downloads.acquire(tenant, 1)).await?;
    let id = tenant.scope(id);
    match await_before(end, symbolication.symcaches.get_derived(&id, name, Hint::default())).await? {
        Ok(DerivedContents::Found(bytes)) => Some(bytes),
        Ok(DerivedContents::Missing) => None,
        Err(error) => {
            tracing::warn!(error = %error, "a derived object could not be fetched for a request");
            None
        }
    }
}

/// Returns the output of a future if it is ready before `end`. The future is not polled after that: a
/// download would begin that no permit counts.
async fn await_before<T>(end: Instant, future: impl Future<Output = T>) -> Option<T> {
    if Instant::now() >= end {
        return None;
    }
    timeout_at(end, future).await.ok()
}

/// Returns the current rules of a request's tenant. Rules of a later version of this service, which this one can't read,
/// are left out.
pub async fn symbolication_rules(
    symbolication: &Symbolication,
    principal: &Principal,
) -> Result<Arc<SymbolicationRules>, Problem> {
    let look_up = async {
        let mut tx = symbolication.storage.tenant(&principal.tenant).await?;
        let rules = rules::get(&mut tx).await?;
        let analysis_switches = analyses::read_switches(&mut tx).await?;
        tx.rollback();
        let grouping = rules.and_then(|rules| GroupingRules::parse(&rules.text).ok()).unwrap_or_default();
        Ok::<_, Problem>(SymbolicationRules { grouping, analysis_switches })
    };
    symbolication.rules_cache.get(principal, look_up).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Proves: fairness
    #[tokio::test(start_paused = true)]
    async fn no_download_begins_after_the_end() {
        let begun = Cell::new(0);
        let hanging = async || {
            begun.set(begun.get() + 1);
            std::future::pending::<()>().await;
        };
        let end = Instant::now() + Duration::from_secs(1);
        for _ in 0..3 {
            assert_eq!(await_before(end, hanging()).await, None);
        }
        assert_eq!(begun.get(), 1);
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(await_before(later, async { 7 }).await, Some(7));
    }
}
