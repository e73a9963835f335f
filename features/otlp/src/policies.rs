//! Whether a tenant refuses records that are no crash. Kept for seconds, so that records need no database.

use crate::store;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use unslide_api::feature::Api;
use unslide_api::problem::Problem;
use unslide_model::TenantId;

/// How long a setting is kept, in microseconds.
const POLICY_MICROS: i64 = 10_000_000;
/// How long the database may take. Without an answer the setting that was known counts, or else the default.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(1);
/// Tenants that are kept.
const TENANTS_CAPACITY: usize = 10_000;

/// The setting of a tenant at a time of the monotonic clock.
#[derive(Clone, Copy)]
struct KnownPolicy {
    refuses_others: bool,
    read_at: i64,
}

/// The settings of tenants.
#[derive(Default)]
pub struct RecordPolicies(Mutex<HashMap<TenantId, KnownPolicy>>);

impl RecordPolicies {
    /// Returns true if a tenant refuses records that are no crash.
    pub async fn refuses_others(&self, api: &Api, tenant: &TenantId) -> bool {
        let storage = &api.parts().storage;
        let now = storage.clock.monotonic_micros();
        let known = self.0.lock().get(tenant).copied();
        if let Some(known) = known
            && now - known.read_at < POLICY_MICROS
        {
            return known.refuses_others;
        }
        let reading = async {
            let mut tx = storage.tenant(tenant).await?;
            let settings = store::find_settings(&mut tx).await?;
            tx.rollback();
            Ok::<_, Problem>(settings.is_some_and(|settings| settings.refuses_others))
        };
        let read = tokio::time::timeout(LOOK_UP_TIMEOUT, reading).await;
        let Ok(Ok(refuses_others)) = read else {
            return known.is_some_and(|known| known.refuses_others);
        };
        let mut tenants = self.0.lock();
        if tenants.len() >= TENANTS_CAPACITY {
            tenants.clear();
        }
        tenants.insert(tenant.clone(), KnownPolicy { refuses_others, read_at: now });
        refuses_others
    }

    /// Forgets the setting of a tenant, after it was changed by this process.
    pub fn forget_tenant(&self, tenant: &TenantId) {
        self.0.lock().remove(tenant);
    }
}
