//! The symbols that a report can use, and the tenant's rules of symbolication, for operations that symbolicate on
//! their own.
//!
//! Symbols come from object storage through this machine's cache, which follows changes in the topic of
//! symbol events. The database is queried only for rules that are not cached.

use crate::http::problem::Problem;
use crate::reports::rules_cache::SymbolicationRules;
use crate::state::Api;
use futures::{StreamExt, stream};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use unslide_artifacts::Hint;
use unslide_model::{DebugId, TenantId};
use unslide_store::groups::rules;
use unslide_store::keys::Principal;
use unslide_store::tenants::analyses;
use unslide_symbolicate::grouping::GroupingRules;
use unslide_symbolicate::{Analysis, ImageSymbols, SymbolNeed, enabled_analyses};

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
    /// The analyses that the tenant has not turned off.
    pub analyses: Vec<Analysis>,
}

impl SymbolsOfReport {
    /// Returns the cached symbols of a report without waiting, and the symbols to fetch.
    pub fn from_cache(
        api: &Api,
        tenant: &TenantId,
        mut needs: Vec<SymbolNeed>,
        rules: Arc<SymbolicationRules>,
    ) -> (SymbolsOfReport, Vec<SymbolNeed>) {
        let too_many = needs.split_off(needs.len().min(MOST_IMAGES));
        let mut symbols: HashMap<DebugId, ImageSymbols> =
            too_many.iter().map(|need| (need.debug_id, ImageSymbols::FetchingFailed)).collect();
        let mut cold = Vec::new();
        for need in needs {
            match api.symcaches.peek(&tenant.scope(need.debug_id), need.system, Hint::default()) {
                Some(known) => drop(symbols.insert(need.debug_id, known)),
                None => cold.push(need),
            }
        }
        let analyses = enabled_analyses(&api.analyses, &rules.disabled_analyses);
        (SymbolsOfReport { symbols, rules, analyses }, cold)
    }

    /// Fetches the rest from object storage, as a symbolizer does. A failed fetch is recorded for its image
    /// and fails no report.
    pub async fn fetch_rest(
        mut self,
        api: &Api,
        tenant: &TenantId,
        cold: Vec<SymbolNeed>,
    ) -> SymbolsOfReport {
        let end = Instant::now() + Duration::from_secs(api.limits.request_seconds) / 2;
        let fetched = stream::iter(cold).map(|need| async move {
            let got = download_symbols(api, tenant, &need, end).await;
            (need.debug_id, got.unwrap_or(ImageSymbols::FetchingFailed))
        });
        self.symbols.extend(fetched.buffer_unordered(CONCURRENT_DOWNLOADS_LIMIT).collect::<Vec<_>>().await);
        self
    }

    /// Returns the symbols of a debug id.
    pub fn get(&self, id: &DebugId) -> Option<&ImageSymbols> {
        self.symbols.get(id)
    }
}

/// Fetches everything that a report needs.
pub async fn fetch_symbols(
    api: &Api,
    principal: &Principal,
    needs: Vec<SymbolNeed>,
) -> Result<SymbolsOfReport, Problem> {
    let tenant = &principal.tenant;
    let rules = symbolication_rules(api, principal).await?;
    let (cached, cold) = SymbolsOfReport::from_cache(api, tenant, needs, rules);
    Ok(cached.fetch_rest(api, tenant, cold).await)
}

/// Downloads symbols that are not cached. Returns `None` if they do not come before `end`; the download then
/// goes on.
async fn download_symbols(
    api: &Api,
    tenant: &TenantId,
    need: &SymbolNeed,
    end: Instant,
) -> Option<ImageSymbols> {
    // Limits the tenant's share of the cache's downloads, however many its reports need at once.
    let _permit = await_before(end, api.permits.downloads.acquire(tenant, 1)).await?;
    let id = tenant.scope(need.debug_id);
    let got = await_before(end, api.symcaches.get(&id, need.system, Hint::default())).await?;
    Some(got.unwrap_or_else(|error| {
        tracing::warn!(error = %error, "symbols could not be fetched for a request");
        ImageSymbols::FetchingFailed
    }))
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
    api: &Api,
    principal: &Principal,
) -> Result<Arc<SymbolicationRules>, Problem> {
    let look_up = async {
        let mut tx = api.tenant(&principal.tenant).await?;
        let rules = rules::get(&mut tx).await?;
        let disabled_analyses = analyses::disabled_analyses(&mut tx).await?;
        tx.rollback();
        let grouping = rules.and_then(|rules| GroupingRules::parse(&rules.text).ok()).unwrap_or_default();
        Ok::<_, Problem>(SymbolicationRules { grouping, disabled_analyses })
    };
    api.rules_cache.get(principal, look_up).await
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
