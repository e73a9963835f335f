//! The kind of names keys, and the key of a request.

use std::net::IpAddr;
use time::Duration;
use unslide_api::feature::path_keys::{self, AddressRates, Presented, rate_problem};
use unslide_api::feature::{Keys, Storage};
use unslide_api::problem::{Kind, Problem};
use unslide_model::TenantId;
use unslide_runtime::fairness::{Rate, TokenBuckets};
use unslide_store::audit;
use unslide_store::keys::{KeyApps, KeyKind, KeyLifeTime, KeyPlace, KeyType};

/// Names keys: a profiler reads names of functions with one, in the path of the URL, and can do nothing else with it.
pub const NAMES_KEYS: KeyKind = KeyKind {
    name: "names",
    title: "names key",
    action: "names_key",
    prefix: "usn_",
    place: KeyPlace::Path("/symbols/"),
    scopes: &[],
    apps: KeyApps::OneOrAll,
    life_time: KeyLifeTime::Limited { default: Duration::days(90), max: Duration::days(366) },
    max_in_force: 200,
    is_public: false,
    counts_in_outages: false,
};

/// Names keys, as a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamesKeyType;

impl KeyType for NamesKeyType {
    const DECLARATION: &'static KeyKind = &NAMES_KEYS;
}

/// The key of a request of a profiler. It gives no access to any operation.
pub type NamesCaller = Presented<NamesKeyType>;

/// Requests with one key in a second, and seconds' worth of them at once: a profiler asks for each library of a profile.
const KEY_REQUESTS_PER_SECOND: f64 = 20.0;
const KEY_BURST_SECONDS: f64 = 60.0;
/// Requests of one address in a second, and seconds' worth of them at once. A whole office may have one.
const ADDRESS_REQUESTS_PER_SECOND: f64 = 20.0;
const ADDRESS_BURST_SECONDS: f64 = 60.0;

/// Seconds between two entries of a key's use in the audit log, at most; the log itself keeps one an hour.
const AUDIT_INTERVAL_SECONDS: f64 = 600.0;

/// Rates of keys and addresses.
pub struct NamesKeys {
    addresses: AddressRates,
    rates: TokenBuckets<String>,
    audits: TokenBuckets<String>,
}

impl Default for NamesKeys {
    fn default() -> NamesKeys {
        NamesKeys {
            addresses: AddressRates::new(ADDRESS_REQUESTS_PER_SECOND, ADDRESS_BURST_SECONDS),
            rates: TokenBuckets::default(),
            audits: TokenBuckets::default(),
        }
    }
}

impl NamesKeys {
    /// Takes a request of an address before its key is known.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn take_address(&self, storage: &Storage, address: IpAddr) -> Result<(), Problem> {
        self.addresses.take_request(storage.clock.monotonic_micros(), address)
    }

    /// Finds the key of a request. A text without a correct checksum costs no look-up.
    ///
    /// # Errors
    /// [`Kind::Unauthorized`] for an unknown or expired key, [`Kind::RateLimited`], or the database fails.
    pub async fn find_caller(&self, keys: &Keys, text: &str) -> Result<NamesCaller, Problem> {
        let found = path_keys::find_key::<NamesKeyType>(keys, text).await?;
        let caller = found.ok_or_else(|| Problem::from_kind(Kind::Unauthorized))?;
        self.take_key(keys.storage.clock.monotonic_micros(), &caller.prefix)?;
        Ok(caller)
    }

    /// Notes that a request of the key is answered, in its row and in the audit log.
    pub fn note_use(&self, keys: &Keys, caller: &NamesCaller) {
        let clock = &keys.storage.clock;
        let now = clock.monotonic_micros();
        keys.uses.record_use(&caller.tenant, caller.key_id, caller.last_used_at, clock.now());
        let rate = Rate::with_burst(1.0 / AUDIT_INTERVAL_SECONDS, AUDIT_INTERVAL_SECONDS);
        if self.audits.with_bucket(caller.prefix.clone(), rate, now, |bucket| bucket.try_take(rate, now, 1.0))
        {
            record_use(&keys.storage, caller.tenant.clone(), caller.prefix.clone());
        }
    }

    fn take_key(&self, now: i64, id: &str) -> Result<(), Problem> {
        let rate = Rate::with_burst(KEY_REQUESTS_PER_SECOND, KEY_BURST_SECONDS);
        let wait = self.rates.with_bucket(id.to_owned(), rate, now, |bucket| {
            (!bucket.try_take(rate, now, 1.0)).then(|| bucket.wait_micros(rate, now, 1.0))
        });
        wait.map_or(Ok(()), |micros| Err(rate_problem("requests with this key", micros)))
    }
}

/// Records the use of a key in the audit log, once an hour, without keeping its request waiting.
fn record_use(storage: &Storage, tenant: TenantId, id: String) {
    let store = storage.store.clone();
    tokio::spawn(async move {
        let recording = async {
            let mut tx = store.tenant(&tenant).await?;
            audit::append_once_an_hour(&mut tx, &format!("names key {id}"), "names.read", &id).await?;
            tx.commit().await
        };
        if let Err(error) = recording.await {
            tracing::warn!(%error, names_key.id = id, "the use of a names key was not recorded");
        }
    });
}
