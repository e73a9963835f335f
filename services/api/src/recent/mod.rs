//! Caches of database rows that most requests need: keys with their tenants, and grouping rules.
//!
//! A change, also by another process, is seen within a second: one query each half second reads the stamps of
//! the keys and tenants in use, and a row that no stamp has confirmed for a second is looked up again. A
//! change by this process is seen by its next request. While the database does not answer, a row that was
//! confirmed within the last 30 s still counts.

pub mod changes;
pub mod keys;
pub mod refresh;
mod rows;
pub mod rules;

use changes::AccessChanges;
use keys::RecentKeys;
use rules::RecentRules;
use unslide_model::TenantId;

/// The caches of one process. Cheap to clone.
#[derive(Clone)]
pub struct Recent {
    /// Stamps of the entries in use.
    pub changes: AccessChanges,
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
    /// Forgets the rows of a tenant after one of them has changed.
    pub fn forget(&self, tenant: &TenantId) {
        self.changes.count_own();
        self.keys.0.forget(tenant);
        self.rules.0.forget(tenant);
    }

    /// Forgets all rows after keys or tenants have changed.
    pub fn clear(&self) {
        self.changes.count_own();
        self.keys.0.clear();
        self.rules.0.clear();
    }
}
