//! The making of names keys, and the key of a request.

use super::store::{self, NamesCaller, NamesKey, NamesKeyKind, NamesKeyRow, NamesKeyText, NewNamesKey};
use std::net::IpAddr;
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::Storage;
use unslide_api::feature::operation::is_text;
use unslide_api::feature::path_keys::{AddressRates, KnownKeys, rate_problem};
use unslide_api::problem::{Kind, Problem};
use unslide_feature::{KeyRequest, MadeKey, MakeKey};
use unslide_model::TenantId;
use unslide_runtime::fairness::{Rate, TokenBuckets};
use unslide_store::{Store, TenantTx, audit};

/// How long a key lasts if its maker does not say.
const DEFAULT_LIFETIME: Duration = Duration::days(90);
/// The longest life of a key.
const MAX_LIFETIME: Duration = Duration::days(366);
/// Requests with one key in a second, and seconds' worth of them at once: a profiler asks for each library of a profile.
const KEY_REQUESTS_PER_SECOND: f64 = 20.0;
const KEY_BURST_SECONDS: f64 = 60.0;
/// Requests of one address in a second, and seconds' worth of them at once. A whole office may have one.
const ADDRESS_REQUESTS_PER_SECOND: f64 = 20.0;
const ADDRESS_BURST_SECONDS: f64 = 60.0;

/// Makes names keys on the command line.
pub const NAMES_KEY_MAKER: MakeKey = make_key;

/// Checks a new key, and returns the values of its row.
///
/// # Errors
/// Returns what is wrong.
pub fn check_new(new: &NewNamesKey, now: OffsetDateTime) -> Result<NamesKeyRow<'_>, String> {
    if !is_text(&new.name, 200) {
        return Err("name: 1 to 200 bytes, no control characters".to_owned());
    }
    if new.app.as_ref().is_some_and(|app| !is_text(app, 255)) {
        return Err("app: 1 to 255 bytes, no control characters".to_owned());
    }
    let expires_at = new.expires_at.unwrap_or(now + DEFAULT_LIFETIME);
    if expires_at <= now || expires_at > now + MAX_LIFETIME {
        return Err(format!("expires_at: in the next {} days", MAX_LIFETIME.whole_days()));
    }
    Ok(NamesKeyRow { name: &new.name, app: new.app.as_deref(), expires_at })
}

/// Creates a key and records who made it. Returns None if the tenant has too many.
///
/// # Errors
/// The database fails.
pub async fn create_audited(
    tx: &mut TenantTx,
    actor: &str,
    new: NamesKeyRow<'_>,
    text: &NamesKeyText,
) -> unslide_store::Result<Option<NamesKey>> {
    let key = store::create_key(tx, new, text).await?;
    if let Some(key) = &key {
        let detail = serde_json::json!({"app": key.app, "name": key.name});
        audit::append_entry(tx, actor, "names_key.create", &key.id, &detail).await?;
    }
    Ok(key)
}

fn make_key<'k>(store: &'k Store, tenant: &'k TenantId, request: KeyRequest<'k>) -> MadeKey<'k> {
    Box::pin(async move {
        let app = match request.apps {
            [] => None,
            [app] => Some(app.clone()),
            _ => return Err("--app: a names key is for one app, or for all without --app".into()),
        };
        let new = NewNamesKey { name: request.name.to_owned(), app, expires_at: request.expires_at };
        let row = check_new(&new, store.now())?;
        let text = NamesKeyText::generate()?;
        let mut tx = store.tenant(tenant).await?;
        let key = create_audited(&mut tx, "command line", row, &text).await?;
        key.ok_or_else(|| format!("{tenant} has {} names keys; delete one", store::MAX_KEYS))?;
        tx.commit().await?;
        Ok(text.reveal().to_owned())
    })
}

/// Keys that requests came with a short time ago, and their rates.
pub struct NamesKeys {
    known: KnownKeys<NamesKeyKind, NamesCaller>,
    addresses: AddressRates,
    rates: TokenBuckets<String>,
}

impl Default for NamesKeys {
    fn default() -> NamesKeys {
        NamesKeys {
            known: KnownKeys::default(),
            addresses: AddressRates::new(ADDRESS_REQUESTS_PER_SECOND, ADDRESS_BURST_SECONDS),
            rates: TokenBuckets::default(),
        }
    }
}

impl NamesKeys {
    /// Forgets all keys, because one was deleted.
    pub fn forget_all(&self) {
        self.known.forget_all();
    }

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
    pub async fn find_caller(&self, storage: &Storage, text: &str) -> Result<Arc<NamesCaller>, Problem> {
        let unknown = || Problem::from_kind(Kind::Unauthorized);
        let text = NamesKeyText::parse(text).ok_or_else(unknown)?;
        let look_up = {
            let text = text.clone();
            async move {
                let caller = store::find_caller(&storage.store, &text).await?;
                if let Some(caller) = &caller {
                    record_use(storage, caller.clone());
                }
                Ok(caller)
            }
        };
        let now = storage.clock.monotonic_micros();
        let caller = self.known.find_caller(now, text, look_up).await?.ok_or_else(unknown)?;
        if caller.expires_at <= storage.clock.now() {
            return Err(unknown());
        }
        self.take_key(now, &caller.id)?;
        Ok(caller)
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
fn record_use(storage: &Storage, caller: NamesCaller) {
    let store = storage.store.clone();
    tokio::spawn(async move {
        let recording = async {
            let mut tx = store.tenant(&caller.tenant).await?;
            let actor = format!("names key {}", caller.id);
            audit::append_once_an_hour(&mut tx, &actor, "names.read", &caller.id).await?;
            tx.commit().await
        };
        if let Err(error) = recording.await {
            tracing::warn!(%error, names_key.id = caller.id, "the use of a names key was not recorded");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lasts_90_days_unless_its_maker_says_otherwise() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let new = |days: Option<i64>| NewNamesKey {
            name: "team".to_owned(),
            app: None,
            expires_at: days.map(|days| now + Duration::days(days)),
        };
        assert_eq!(check_new(&new(None), now).unwrap().expires_at, now + Duration::days(90));
        assert_eq!(check_new(&new(Some(366)), now).unwrap().expires_at, now + Duration::days(366));
        for days in [-1, 0, 367] {
            assert!(check_new(&new(Some(days)), now).unwrap_err().starts_with("expires_at"), "{days}");
        }
        assert!(check_new(&NewNamesKey { name: String::new(), ..new(None) }, now).is_err());
        assert!(check_new(&NewNamesKey { app: Some("\n".to_owned()), ..new(None) }, now).is_err());
    }
}
