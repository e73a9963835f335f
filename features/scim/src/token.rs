//! The kind of SCIM tokens, with which an identity provider sends its users and groups.

use unslide_api::feature::Keys;
use unslide_api::feature::path_keys::{Presented, find_key};
use unslide_api::problem::{Kind, Problem};
use unslide_store::keys::{KeyApps, KeyKind, KeyLifeTime, KeyPlace, KeyType};

/// The path below which the protocol is served.
pub const SCIM_PATH: &str = "/scim/v2";

/// SCIM tokens. No key made one, so that a token stays in force when the administrator who made it leaves.
pub const SCIM_TOKENS: KeyKind = KeyKind {
    name: "scim",
    title: "SCIM token",
    action: "scim_token",
    prefix: "uscim_",
    place: KeyPlace::HeaderBelow(SCIM_PATH),
    scopes: &[],
    apps: KeyApps::OneOrAll,
    life_time: KeyLifeTime::Open,
    max_in_force: 10,
    is_public: false,
    counts_in_outages: false,
};

/// SCIM tokens, as a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScimTokenType;

impl KeyType for ScimTokenType {
    const DECLARATION: &'static KeyKind = &SCIM_TOKENS;
}

/// The token of a request. It gives no access to any operation of the API.
pub type ScimCaller = Presented<ScimTokenType>;

/// Finds the token of a request.
///
/// # Errors
/// [`Kind::Unauthorized`] for any other text, or the database fails.
pub async fn find_caller(keys: &Keys, text: &str) -> Result<ScimCaller, Problem> {
    let caller = find_key::<ScimTokenType>(keys, text).await?;
    let caller = caller.ok_or_else(|| Problem::from_kind(Kind::Unauthorized))?;
    keys.uses.record_use(&caller.tenant, caller.key_id, caller.last_used_at, keys.storage.clock.now());
    Ok(caller)
}
