//! What is remembered of the database, so that requests need not ask it: keys with their tenants, and grouping rules.
//!
//! A change is seen within a second, also one by another process: the database tells each process of it, and what no
//! heartbeat of this channel has confirmed for a second is looked up again. What this process changes is seen by its next
//! request. While the database does not answer, what was confirmed within 30 s before still counts.

pub mod changes;
pub mod keys;
pub mod listen;
mod rows;
pub mod rules;

use changes::AccessChanges;
use keys::RecentKeys;
use rules::RecentRules;
use unslide_model::TenantId;

/// What is remembered. Cheap to clone.
#[derive(Clone)]
pub struct Recent {
    changes: AccessChanges,
    /// The principals of keys.
    pub keys: RecentKeys,
    /// The grouping rules of tenants.
    pub rules: RecentRules,
}

impl Default for Recent {
    fn default() -> Recent {
        let changes = AccessChanges::default();
        let (keys, rules) = (RecentKeys::new(&changes), RecentRules::new(&changes));
        Recent { changes, keys, rules }
    }
}

impl Recent {
    /// Forgets what is of a tenant, after something of it has changed.
    pub fn forget(&self, tenant: &TenantId) {
        self.changes.count();
        self.keys.0.forget(tenant);
        self.rules.0.forget(tenant);
    }

    /// Forgets everything, after something of keys or of tenants has changed.
    pub fn clear(&self) {
        self.changes.count();
        self.keys.0.clear();
        self.rules.0.clear();
    }
}
