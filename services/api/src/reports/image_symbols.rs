//! The symbols that a report can use, and the tenant's grouping rules, for the operations that symbolicate themselves.
//!
//! Which generation is the newest is asked of the database, so that this machine's cache never
//! answers with an older one, and images that nobody has symbols for cost no request to storage.

use crate::http::problem::Problem;
use crate::state::Api;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use unslide_artifacts::Hint;
use unslide_model::{DebugId, TenantId};
use unslide_store::slots;
use unslide_symbolicate::grouping::GroupingRules;
use unslide_symbolicate::{ImageSymbols, SymbolNeed};

/// Images of one report that symbols are fetched for; further ones count as not fetched. Real
/// reports have frames in a few dozen images.
const MOST_IMAGES: usize = 1_000;
/// Downloads at a time for one report.
const AT_ONCE: usize = 16;

/// Symbols by debug id, and the tenant's grouping rules.
#[derive(Debug, Default)]
pub struct SymbolsOfReport {
    symbols: HashMap<DebugId, ImageSymbols>,
    /// The rules of now. Those of a later version of this service, which this one can't read, are left out.
    pub rules: GroupingRules,
}

impl SymbolsOfReport {
    /// What is known of a debug id.
    pub fn get(&self, id: &DebugId) -> Option<&ImageSymbols> {
        self.symbols.get(id)
    }
}

/// Fetches what a report needs. What can't be fetched is said so in the answer: it fails no report.
pub async fn fetch(
    api: &Api,
    tenant: &TenantId,
    mut needs: Vec<SymbolNeed>,
) -> Result<SymbolsOfReport, Problem> {
    let too_many = needs.split_off(needs.len().min(MOST_IMAGES));
    let debug_ids: Vec<DebugId> = needs.iter().map(|need| need.debug_id).collect();
    let mut tx = api.tenant(tenant).await?;
    let (newest, rules) = slots::answering_and_rules(&mut tx, &debug_ids).await?;
    tx.rollback().await?;
    let rules = rules.and_then(|text| GroupingRules::parse(&text).ok()).unwrap_or_default();
    let hint = |need: &SymbolNeed| Hint {
        tenant: newest.own.get(&need.debug_id).copied(),
        system: newest.system.get(&need.debug_id).copied().filter(|_| need.system),
    };
    let wanted = needs.into_iter().map(|need| (hint(&need), need));
    let wanted: Vec<(Hint, SymbolNeed)> =
        wanted.filter(|(hint, _)| hint.tenant.is_some() || hint.system.is_some()).collect();
    let mut symbols: HashMap<DebugId, ImageSymbols> =
        too_many.iter().map(|need| (need.debug_id, ImageSymbols::FetchingFailed)).collect();
    let found = stream::iter(wanted).map(|(hint, need)| async move {
        let id = tenant.scope(need.debug_id);
        // Among the cache's downloads the tenant's are few, whatever its reports want at once.
        let _permit = api.permits.downloads.acquire(tenant, 1).await;
        let symbols = match api.symcaches.get(&id, need.system, hint).await {
            Ok(symbols) => symbols,
            Err(error) => {
                tracing::warn!(error = %error, "symbols could not be fetched for a request");
                ImageSymbols::FetchingFailed
            }
        };
        Ok::<_, Problem>((need.debug_id, symbols))
    });
    let found: Vec<_> = found.buffer_unordered(AT_ONCE).try_collect().await?;
    symbols.extend(found);
    Ok(SymbolsOfReport { symbols, rules })
}
