//! The kind of public keys, and the key of a request from an app.

use unslide_api::feature::Keys;
use unslide_api::feature::path_keys::{self, Presented};
use unslide_api::problem::Problem;
use unslide_store::keys::{KeyApps, KeyKind, KeyLifeTime, KeyPlace, KeyType};

/// Public keys. An app carries one in the URL to which it sends its reports, so the text is no secret.
pub const PUBLIC_KEYS: KeyKind = KeyKind {
    name: "public",
    title: "public key",
    action: "public_key",
    prefix: "usp_",
    place: KeyPlace::Path("/i/"),
    scopes: &[],
    apps: KeyApps::Patterns,
    life_time: KeyLifeTime::Endless,
    max_in_force: 200,
    is_public: true,
    // A report needs the broker only.
    counts_in_outages: true,
};

/// Public keys, as a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PublicKeyType;

impl KeyType for PublicKeyType {
    const DECLARATION: &'static KeyKind = &PUBLIC_KEYS;
}

/// The key of a request from an app. It gives no access to any operation.
pub type CallerKey = Presented<PublicKeyType>;

/// Finds the key of a request. A text without a correct checksum costs no look-up.
///
/// # Errors
/// The database fails, and the key was not known before.
pub async fn find_key(keys: &Keys, text: &str) -> Result<Option<CallerKey>, Problem> {
    let key = path_keys::find_key::<PublicKeyType>(keys, text).await?;
    if let Some(key) = &key {
        let now = keys.storage.clock.now();
        keys.uses.record_use(&key.tenant, key.key_id, key.last_used_at, now);
    }
    Ok(key)
}

/// Returns the key of a request if it was in use a short time ago.
pub fn find_known_key(keys: &Keys, text: &str) -> Option<CallerKey> {
    keys.cache.find_known(&*keys.storage.clock, text)
}
