//! Two builds by their debug ids.

use super::outcome::ChangesOutcome;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::lists::reserve_bytes;
use unslide_api::feature::operation::{Access, Kind, Problem, ReportsRead, SymbolsOfReport};
use unslide_api::feature::site::sees_symbols;
use unslide_changes_compare::{BuildComparison, BuildCounts, CompareError, FunctionChange, describe_counts};
use unslide_model::{DebugId, TenantId};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{ImageSymbols, SymbolNeed};
use utoipa::ToSchema;

/// Functions that a comparison lists.
pub const FUNCTIONS_LIMIT: usize = 200;

/// The functions that differ between two builds.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BuildDiff {
    /// The debug id of the build before.
    #[schema(value_type = String, format = Uuid)]
    pub a: DebugId,
    /// The debug id of the build after.
    #[schema(value_type = String, format = Uuid)]
    pub b: DebugId,
    /// Whether they were compared. If not, no function is listed.
    pub outcome: ChangesOutcome,
    /// What was found, in a sentence.
    #[schema(max_length = 4000)]
    pub text: String,
    /// Numbers of functions in both builds.
    pub counts: BuildCounts,
    /// The functions that were edited, are new, gone or have other bytes, the edited ones first; or those of the query's name.
    #[schema(max_items = 200)]
    pub functions: Vec<FunctionChange>,
    /// True if more functions differ than are listed.
    pub is_truncated: bool,
}

/// The symbols of the builds that are compared.
pub struct FetchedBuilds(SymbolsOfReport);

impl FetchedBuilds {
    /// Fetches the symbols of builds of a tenant, as the symbolication of a report does.
    pub async fn fetch(
        symbolication: &Symbolication,
        tenant: &TenantId,
        debug_ids: Vec<DebugId>,
    ) -> FetchedBuilds {
        let need = |debug_id| SymbolNeed { debug_id, cpu: None, system: false, name: String::new() };
        let needs = debug_ids.into_iter().map(need).collect();
        let (found, cold) = SymbolsOfReport::from_cache(symbolication, tenant, needs, Arc::default());
        FetchedBuilds(found.fetch_rest(symbolication, tenant, cold).await)
    }

    /// Returns the symbols of a build; `None` if there are none.
    ///
    /// # Errors
    /// They exist and could not be fetched.
    pub fn find_symcache(&self, debug_id: &DebugId) -> Result<Option<Arc<SymCache>>, Problem> {
        match self.0.get(debug_id) {
            Some(ImageSymbols::Found { symcache, .. }) => Ok(Some(symcache.clone())),
            Some(ImageSymbols::FetchingFailed) => {
                Err(Problem::new(Kind::Unavailable, "the symbols of a build could not be fetched; try again"))
            }
            _ => Ok(None),
        }
    }
}

/// Compares two builds on the CPU pool, and reads the comparison there. Reserves the bytes of both for the time.
///
/// # Errors
/// No bytes are left.
pub async fn compare_on_pool<T: Send + 'static>(
    symbolication: &Symbolication,
    tenant: &TenantId,
    [before, after]: [Arc<SymCache>; 2],
    read: impl FnOnce(Result<&BuildComparison<'_>, CompareError>, &SymCache) -> T + Send + 'static,
) -> Result<T, Problem> {
    let bytes = before.bytes().len() + after.bytes().len();
    let reservation = reserve_bytes(&symbolication.capacity.permits, tenant, bytes as u64)?;
    let work = move || {
        let compared = BuildComparison::from_symcaches(&before, &after);
        let found = read(compared.as_ref().map_err(|error| *error), &after);
        drop(compared);
        drop(reservation);
        found
    };
    Ok(symbolication.capacity.cpu.run_for(tenant, work).await?)
}

/// Compares two builds of a tenant.
///
/// # Errors
/// [`Kind::NotFound`] if one of them has no symbols that the key may see.
pub async fn diff_builds(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    [a, b]: [DebugId; 2],
    function: Option<String>,
) -> Result<BuildDiff, Problem> {
    let mut tx = symbolication.storage.owner(&access.symbol_owner()).await?;
    let is_seen = sees_symbols(&mut tx, access.only_app(), &a).await?
        && sees_symbols(&mut tx, access.only_app(), &b).await?;
    tx.rollback();
    let none = || {
        let detail = "one of the builds has no symbols that this key may see; upload their dSYMs with POST /v1/symbols";
        Problem::new(Kind::NotFound, detail)
    };
    if !is_seen {
        return Err(none());
    }
    let tenant = access.tenant();
    let found = FetchedBuilds::fetch(symbolication, tenant, vec![a, b]).await;
    let (Some(before), Some(after)) = (found.find_symcache(&a)?, found.find_symcache(&b)?) else {
        return Err(none());
    };
    compare_on_pool(symbolication, tenant, [before, after], move |compared, _| {
        describe_builds([a, b], compared, function.as_deref())
    })
    .await
}

fn describe_builds(
    [a, b]: [DebugId; 2],
    compared: Result<&BuildComparison<'_>, CompareError>,
    function: Option<&str>,
) -> BuildDiff {
    let none = |outcome: ChangesOutcome, counts| BuildDiff {
        a,
        b,
        outcome,
        text: outcome.describe().unwrap_or_default().to_owned(),
        counts,
        functions: Vec::new(),
        is_truncated: false,
    };
    let Ok(comparison) = compared else { return none(ChangesOutcome::TooLarge, BuildCounts::default()) };
    let (outcome, counts) = (comparison.outcome().into(), comparison.counts());
    if outcome != ChangesOutcome::Compared {
        return none(outcome, counts);
    }
    let mut functions = match function {
        Some(name) => comparison.find_by_name(name),
        None => comparison.list_changes(FUNCTIONS_LIMIT + 1),
    };
    let is_truncated = functions.len() > FUNCTIONS_LIMIT;
    functions.truncate(FUNCTIONS_LIMIT);
    let text = match function {
        Some(_) if functions.is_empty() => "No function of this name is in the builds.".to_owned(),
        Some(_) => functions.first().map(|found| found.text.clone()).unwrap_or_default(),
        None => describe_counts(&counts),
    };
    BuildDiff { text, functions, is_truncated, ..none(outcome, counts) }
}
