//! The symbols that a report can use, for the operations that symbolicate themselves.
//!
//! Which generation is the newest is asked of the database, so that this machine's cache never
//! answers with an older one, and images that nobody has symbols for cost no request to storage.

use crate::http::problem::Problem;
use crate::state::Api;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use unslide_artifacts::Hint;
use unslide_model::{DebugId, Quality, TenantId};
use unslide_store::slots;
use unslide_symbolicate::{ImageSymbols, SymbolNeed};

/// Images of one report that symbols are fetched for; further ones count as not fetched. Real
/// reports have frames in a few dozen images.
const MOST_IMAGES: usize = 1_000;
/// Downloads at a time for one report.
const AT_ONCE: usize = 16;

/// Symbols by debug id.
#[derive(Debug, Default)]
pub struct SymbolsOfReport(HashMap<DebugId, ImageSymbols>);

impl SymbolsOfReport {
    /// What is known of a debug id.
    pub fn get(&self, id: &DebugId) -> Option<&ImageSymbols> {
        self.0.get(id)
    }
}

/// Fetches what a report needs. What can't be fetched is said so in the answer: it fails no report.
///
/// # Errors
/// Where the database does not answer.
pub async fn fetch(api: &Api, tenant: &TenantId, needs: Vec<SymbolNeed>) -> Result<SymbolsOfReport, Problem> {
    let mut fetched = HashMap::new();
    let mut wanted: Vec<(SymbolNeed, Hint)> = Vec::new();
    let mut tx = api.tenant(tenant).await?;
    let of_system: Vec<DebugId> =
        needs.iter().take(MOST_IMAGES).filter(|need| need.system).map(|need| need.debug_id).collect();
    let of_system = slots::system_generations(&mut tx, &of_system).await?;
    for (index, need) in needs.into_iter().enumerate() {
        if index >= MOST_IMAGES {
            fetched.insert(need.debug_id, ImageSymbols::FetchingFailed);
            continue;
        }
        let slot = slots::get(&mut tx, &need.debug_id).await?.filter(|slot| slot.quality != Quality::None);
        let system = of_system.get(&need.debug_id).copied().filter(|_| need.system);
        if slot.is_some() || system.is_some() {
            wanted.push((need, Hint { tenant: slot.map(|slot| slot.generation), system }));
        }
    }
    tx.rollback().await?;
    let found = stream::iter(wanted).map(|(need, hint)| async move {
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
    fetched.extend(found);
    Ok(SymbolsOfReport(fetched))
}
