//! API keys.

pub mod create;
mod get;
pub mod list;
mod revoke;

pub use revoke::{RevokeQuery, RevokedKey, revoke_and_count, revoke_key};

use crate::limits::transactions::Tx;
use crate::operations::prelude::*;
use crate::requests::input::is_text;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::Scope;
use unslide_store::keys::{self, ApiKey, NewApiKey, Principal};
use unslide_store::{TenantTx, audit};

/// The routes of this folder.
pub fn key_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(create::create_key, list::list_keys))
        .routes(routes!(get::get_key))
        .routes(routes!(revoke::revoke_key))
}

/// A key that was made, with its text.
#[derive(Serialize, ToSchema)]
pub struct CreatedKey {
    /// The key's record, as in the list of keys.
    #[serde(flatten)]
    pub key: ApiKey,
    /// The key's text, for `Authorization: Bearer …`. Shown this one time.
    #[schema(example = "unslide_k3mw7qzd_0000000000000000000000000000000000000000")]
    pub text: String,
}

/// Checks a new key's fields beyond its schema, and that the key does not outlive its creator `by`.
///
/// # Errors
/// [`Kind::InvalidBody`]; [`Kind::InsufficientScope`] if it would outlive its creator.
pub fn check_new_key(new: &NewApiKey, by: &Principal, now: OffsetDateTime) -> Result<(), Problem> {
    let wrong = if !is_text(&new.name, 200) {
        "name: 1 to 200 bytes, no control characters"
    } else if new.app.is_some() && new.scopes.contains(&Scope::Operator) {
        "app: a key with the scope operator cannot be for one app"
    } else if new.scopes.is_empty() || new.scopes.len() > Scope::ALL.len() {
        "scopes: at least one, each once"
    } else if new.app.as_ref().is_some_and(|app| !is_text(app, 255)) {
        "app: 1 to 255 bytes, no control characters"
    } else if new.expires_at.is_some_and(|end| end <= now) {
        "expires_at: in the past"
    } else {
        return ends_with(new, by);
    };
    Err(Problem::new(Kind::InvalidBody, wrong))
}

fn ends_with(new: &NewApiKey, by: &Principal) -> Result<(), Problem> {
    let Some(end) = by.expires_at else { return Ok(()) };
    if new.expires_at.is_some_and(|own| own <= end) {
        return Ok(());
    }
    let end = end.format(&Rfc3339).map_err(Problem::internal)?;
    let detail =
        format!("expires_at: the key expires at {end}, so the keys that it creates must expire no later");
    Err(Problem::new(Kind::InsufficientScope, detail))
}

/// Creates a key of the transaction's tenant and commits.
///
/// # Errors
/// The database fails, or the operating system gives no random bytes.
pub async fn make_key(
    api: &Api,
    mut tx: Tx<TenantTx>,
    by: &Principal,
    mut new: NewApiKey,
) -> Result<CreatedKey, Problem> {
    let entropy = api.entropy.generate_key().map_err(Problem::internal)?;
    new.scopes.sort_unstable();
    new.scopes.dedup();
    let made = keys::create_by(&mut tx, &new, &entropy, by.key_id).await?;
    // The creator's key was revoked since this request began.
    let (key, text) = made.ok_or_else(|| Problem::from_kind(Kind::Unauthorized))?;
    let detail = serde_json::json!({"scopes": key.scopes, "by_tenant": by.tenant});
    audit::append_entry(&mut tx, &by.key_id.to_string(), "key.create", &key.id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(CreatedKey { key, text: text.reveal().to_owned() })
}
