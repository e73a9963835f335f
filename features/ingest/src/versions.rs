//! Versions of apps that use a key. They are counted in memory and written outside the path of requests.

use crate::key::CallerKey;
use crate::store::{self, CountedVersion, VersionUses};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use time::Date;
use unslide_model::TenantId;
use unslide_store::Store;

/// The time between two writes.
pub const VERSIONS_WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Keys of one process with counts that are not written yet. Those of further keys are lost.
const KEYS_CAPACITY: usize = 10_000;
/// Versions of one key with counts that are not written yet. A stranger may send any number of them.
const VERSIONS_CAPACITY: usize = 100;
/// The most characters of an app or a version that are kept.
const NAME_CHARS: usize = 100;

/// A version of an app on one day.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DayVersion {
    day: Date,
    app: String,
    version: String,
}

/// A key with uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CountedKey {
    tenant: TenantId,
    id: String,
}

impl From<&CallerKey> for CountedKey {
    fn from(key: &CallerKey) -> CountedKey {
        CountedKey { tenant: key.tenant.clone(), id: key.prefix.clone() }
    }
}

/// Counts that are not written yet.
#[derive(Debug, Default)]
pub struct KeyVersionCounts(Mutex<HashMap<CountedKey, HashMap<DayVersion, VersionUses>>>);

impl KeyVersionCounts {
    /// Adds uses of a key by a version of an app.
    pub fn count_uses(&self, counted: CountedKey, day: Date, app: &str, version: &str, uses: VersionUses) {
        let mut keys = self.0.lock();
        if keys.len() >= KEYS_CAPACITY && !keys.contains_key(&counted) {
            return;
        }
        let versions = keys.entry(counted).or_default();
        let version = DayVersion { day, app: shorten_name(app), version: shorten_name(version) };
        if versions.len() < VERSIONS_CAPACITY || versions.contains_key(&version) {
            let counted = versions.entry(version).or_default();
            counted.reports += uses.reports;
            counted.runs += uses.runs;
        }
    }

    /// Writes the counts. Counts that the database does not take are lost: they only show which versions are in use.
    pub async fn write_counts(&self, store: &Store) {
        let keys = std::mem::take(&mut *self.0.lock());
        let mut tenants: HashMap<TenantId, Vec<CountedVersion>> = HashMap::new();
        for (key, versions) in keys {
            let rows = versions.into_iter().map(|(version, uses)| {
                let DayVersion { day, app, version } = version;
                CountedVersion { key_id: key.id.clone(), day, app, version, uses }
            });
            tenants.entry(key.tenant.clone()).or_default().extend(rows);
        }
        for (tenant, versions) in tenants {
            if let Err(error) = store::count_versions(store, &tenant, &versions).await {
                tracing::warn!(%error, "the versions of apps that use public keys were not recorded");
            }
        }
    }
}

/// Returns the beginning of a name, without characters that a line cannot show.
fn shorten_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    #[test]
    fn versions_of_a_key_are_bounded() {
        let key = CountedKey { tenant: TenantId::new("acme").unwrap(), id: "0a1b2c3d".to_owned() };
        let counts = KeyVersionCounts::default();
        let report = VersionUses { reports: 1, runs: 0 };
        let count = |version: &str| {
            counts.count_uses(key.clone(), date!(2026 - 11 - 26), "com.example.shop", version, report);
        };
        for version in 0..2 * VERSIONS_CAPACITY {
            count(&version.to_string());
        }
        count("0");
        let keys = counts.0.lock();
        let versions = keys.values().next().unwrap();
        assert_eq!((keys.len(), versions.len()), (1, VERSIONS_CAPACITY));
        assert_eq!(versions.values().map(|uses| uses.reports).sum::<u64>(), VERSIONS_CAPACITY as u64 + 1);
        assert_eq!(shorten_name(&"a\n".repeat(200)), "a".repeat(NAME_CHARS));
    }
}
