//! Cache of the settings by which tenants that symbolicated recently want their reports symbolicated.

use lru::LruCache;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_store::keys::Principal;
use unslide_store::tenants::analyses::AnalysisSwitches;
use unslide_symbolicate::grouping::GroupingRules;

/// Maximum number of tenants with cached rules. They may have 64 KiB each.
const TENANT_LIMIT: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// The settings of a tenant for the symbolication of its reports.
#[derive(Debug, Default)]
pub struct SymbolicationRules {
    pub grouping: GroupingRules,
    /// The analyses that it has turned on or off.
    pub analysis_switches: AnalysisSwitches,
}

/// The rules of tenants. Cheap to clone.
#[derive(Clone)]
pub struct RulesCache(Arc<Mutex<LruCache<TenantId, CachedRules>>>);

struct CachedRules {
    /// The version of the tenant before the rules were read: each change of them changes it.
    tenant_version: i64,
    rules: Arc<SymbolicationRules>,
}

impl Default for RulesCache {
    fn default() -> RulesCache {
        RulesCache(Arc::new(Mutex::new(LruCache::new(TENANT_LIMIT))))
    }
}

impl RulesCache {
    /// Returns the rules of a request's tenant; `look_up` reads them from the database if they are not cached
    /// or the tenant has changed since.
    ///
    /// # Errors
    /// The look-up fails.
    pub async fn get<E>(
        &self,
        principal: &Principal,
        look_up: impl Future<Output = Result<SymbolicationRules, E>>,
    ) -> Result<Arc<SymbolicationRules>, E> {
        let Principal { tenant, tenant_version, .. } = principal;
        if let Some(cached) = self.0.lock().get(tenant)
            && cached.tenant_version == *tenant_version
        {
            return Ok(cached.rules.clone());
        }
        let rules = Arc::new(look_up.await?);
        let cached = CachedRules { tenant_version: *tenant_version, rules: rules.clone() };
        self.0.lock().put(tenant.clone(), cached);
        Ok(rules)
    }
}
