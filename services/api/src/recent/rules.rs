//! Cache of the settings by which tenants that symbolicated recently want their reports symbolicated.

use super::changes::AccessChanges;
use super::rows::{RecentRow, RecentRows};
use std::num::NonZeroUsize;
use std::sync::Arc;
use unslide_model::{Clock, TenantId};
use unslide_store::access_stamps::AccessEntry;
use unslide_symbolicate::grouping::GroupingRules;

/// The most tenants with cached rules. They may have 64 KiB each.
const MOST: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// The settings of a tenant for the symbolication of its reports.
#[derive(Debug, Default)]
pub struct SymbolicationRules {
    /// Its own grouping rules.
    pub grouping: GroupingRules,
    /// Names of the analyses that it has turned off.
    pub disabled_analyses: Vec<String>,
}

/// The rules of tenants. Cheap to clone.
#[derive(Clone)]
pub struct RecentRules(pub(super) RecentRows<TenantId, TenantRules>);

/// The rules of one tenant.
#[derive(Clone)]
pub(super) struct TenantRules {
    tenant: TenantId,
    rules: Arc<SymbolicationRules>,
}

impl RecentRow for TenantRules {
    fn entry(&self) -> AccessEntry {
        AccessEntry::Tenant(self.tenant.clone())
    }

    fn tenant(&self) -> &TenantId {
        &self.tenant
    }
}

impl RecentRules {
    pub(super) fn new(changes: &AccessChanges) -> RecentRules {
        RecentRules(RecentRows::new(changes, MOST))
    }

    /// Returns a tenant's rules; `look_up` reads them from the database.
    ///
    /// # Errors
    /// The database fails and the rules were not confirmed within the last 30 s.
    pub async fn get<E: Send + 'static>(
        &self,
        clock: &dyn Clock,
        tenant: &TenantId,
        look_up: impl Future<Output = Result<SymbolicationRules, E>> + Send + 'static,
    ) -> Result<Arc<SymbolicationRules>, E> {
        let of = tenant.clone();
        let look_up = async move {
            let rules = Arc::new(look_up.await?);
            Ok(Some(TenantRules { tenant: of, rules }))
        };
        let found = self.0.get(clock, tenant.clone(), look_up).await?;
        Ok(found.map(|found| found.rules).unwrap_or_default())
    }
}
