//! API keys.

pub mod create;
mod get;
pub mod list;
mod revoke;

pub use revoke::{RevokeQuery, RevokedKey, revoke_and_count, revoke_key};

use crate::operations::prelude::*;
use crate::requests::input::is_text;
use crate::storage::transactions::Tx;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::{KeyPreset, Scope, timestamp};
use unslide_store::keys::{self, ApiKey, NewApiKey, Principal};
use unslide_store::{TenantTx, audit};

/// The routes of this folder.
pub fn key_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(create::create_key, list::list_keys))
        .routes(routes!(get::get_key))
        .routes(routes!(revoke::revoke_key))
}

/// A key to be made: with scopes, or with a preset.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub struct NewKeyBody {
    /// Name of the key, for people.
    #[schema(min_length = 1, max_length = 200, example = "build pipeline")]
    pub name: String,
    /// Scopes that the key grants, at least one. Absent with a preset.
    #[serde(default)]
    #[schema(value_type = Vec<String>, min_items = 1, example = json!(["symbols:write", "symbols:read"]))]
    pub scopes: Option<Vec<Scope>>,
    /// The purpose of the key, instead of scopes. `pipeline` uploads symbols. `app` sends what one app reports, and needs
    /// `app`. `gateway` sends what every app reports. `reader` sees everything but changes nothing. `triager` also works on
    /// groups.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "pipeline")]
    pub preset: Option<KeyPreset>,
    /// The only app (bundle identifier) that the key is valid for; all apps if absent.
    #[schema(max_length = 255)]
    pub app: Option<String>,
    /// When the key expires (RFC 3339); never if absent. It cannot outlive the key that creates it.
    #[serde(default, deserialize_with = "timestamp::deserialize")]
    pub expires_at: Option<OffsetDateTime>,
}

impl NewKeyBody {
    /// Returns the key with the scopes of its preset.
    ///
    /// # Errors
    /// [`Kind::InvalidBody`] if there are both or neither of scopes and a preset, or the preset needs an app.
    pub fn into_new_key(self) -> Result<NewApiKey, Problem> {
        let scopes = match (self.scopes, self.preset) {
            (Some(scopes), None) => scopes,
            (None, Some(preset)) if preset.needs_app() && self.app.is_none() => {
                let detail =
                    format!("app: a key with the preset {preset} is for one app: name its bundle identifier");
                return Err(Problem::new(Kind::InvalidBody, detail));
            }
            (None, Some(preset)) => preset.scopes().to_vec(),
            _ => {
                let presets = KeyPreset::ALL.map(KeyPreset::as_str).join(", ");
                let detail = format!("scopes: send either scopes or a preset ({presets})");
                return Err(Problem::new(Kind::InvalidBody, detail));
            }
        };
        Ok(NewApiKey { name: self.name, scopes, app: self.app, expires_at: self.expires_at })
    }
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
    keys: &Keys,
    mut tx: Tx<TenantTx>,
    by: &Principal,
    mut new: NewApiKey,
) -> Result<CreatedKey, Problem> {
    let entropy = keys.entropy.generate_key().map_err(Problem::internal)?;
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
