//! API keys.

mod create;
pub mod list;
mod revoke;

pub use revoke::{RevokeQuery, RevokedKey, revoke};

use crate::limits::transactions::Tx;
use crate::operations::prelude::*;
use crate::requests::input::is_text;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::Scope;
use unslide_store::keys::Principal;
use unslide_store::{TenantTx, Uuid, audit, keys};

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(create::create_key, list::list_keys))
        .routes(routes!(revoke::revoke_key))
}

/// A key as it can be shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Key {
    /// Its id.
    pub id: Uuid,
    /// Its name for people.
    pub name: String,
    /// The public part of its text, after `unslide_`.
    #[schema(example = "k3mw7qzd")]
    pub prefix: String,
    /// What it may do.
    #[schema(value_type = Vec<String>, max_items = 6, example = json!(["symbols:write", "symbols:read"]))]
    pub scopes: Vec<Scope>,
    /// The only app that it speaks for; absent where it speaks for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The id of the key that made it, which may be an operator's; absent where it was made on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<Uuid>,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it ends by itself.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<OffsetDateTime>,
    /// When it was revoked.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<OffsetDateTime>,
    /// When it was used last, give or take a minute.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<OffsetDateTime>,
}

impl From<keys::ApiKey> for Key {
    fn from(key: keys::ApiKey) -> Key {
        Key {
            id: key.id,
            name: key.name,
            prefix: key.prefix,
            scopes: key.scopes,
            app: key.app,
            made_by: key.made_by,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// A key to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// Its name for people.
    #[schema(min_length = 1, max_length = 200, example = "build pipeline")]
    pub name: String,
    /// What it may do, at least one scope.
    #[schema(value_type = Vec<String>, min_items = 1, example = json!(["symbols:write", "symbols:read"]))]
    pub scopes: Vec<Scope>,
    /// The only app (bundle identifier) that it speaks for; all where absent.
    #[schema(max_length = 255)]
    pub app: Option<String>,
    /// When it ends by itself; never where absent. No later than the key that makes it.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
}

/// A key that was made, with its text.
#[derive(Serialize, ToSchema)]
pub struct CreatedKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The key's text, for `Authorization: Bearer …`. Shown this one time.
    #[schema(example = "unslide_k3mw7qzd_0000000000000000000000000000000000000000")]
    pub text: String,
}

impl NewKey {
    /// Checks what the schema can't say, and that the key outlives `by` not, which makes it.
    ///
    /// # Errors
    /// [`Kind::InvalidBody`]; [`Kind::InsufficientScope`] where it would outlive its maker.
    pub fn check(&self, by: &Principal, now: OffsetDateTime) -> Result<(), Problem> {
        let wrong = if !is_text(&self.name, 200) {
            "name: 1 to 200 bytes, no control characters"
        } else if self.app.is_some() && self.scopes.contains(&Scope::Operator) {
            "app: operators act for no app"
        } else if self.scopes.is_empty() || self.scopes.len() > Scope::ALL.len() {
            "scopes: at least one, each once"
        } else if self.app.as_ref().is_some_and(|app| !is_text(app, 255)) {
            "app: 1 to 255 bytes, no control characters"
        } else if self.expires_at.is_some_and(|end| end <= now) {
            "expires_at: in the past"
        } else {
            return self.ends_with(by);
        };
        Err(Problem::new(Kind::InvalidBody, wrong))
    }

    fn ends_with(&self, by: &Principal) -> Result<(), Problem> {
        let Some(end) = by.expires_at else { return Ok(()) };
        if self.expires_at.is_some_and(|own| own <= end) {
            return Ok(());
        }
        let end = end.format(&Rfc3339).map_err(Problem::internal)?;
        let detail = format!("expires_at: this key ends at {end}; so must the keys that it makes, or before");
        Err(Problem::new(Kind::InsufficientScope, detail))
    }
}

/// Makes a key of the transaction's tenant and commits.
///
/// # Errors
/// Where the database fails, or the operating system gives no random bytes.
pub async fn make(
    api: &Api,
    mut tx: Tx<TenantTx>,
    by: &Principal,
    new: NewKey,
) -> Result<CreatedKey, Problem> {
    let entropy = api.entropy.key().map_err(Problem::internal)?;
    let mut scopes = new.scopes;
    scopes.sort_unstable();
    scopes.dedup();
    let new = keys::NewApiKey { name: new.name, scopes, app: new.app, expires_at: new.expires_at };
    let made = keys::create_by(&mut tx, &new, &entropy, by.key_id).await?;
    // It was revoked since this request began.
    let (key, text) = made.ok_or_else(|| Problem::bare(Kind::Unauthorized))?;
    let detail = serde_json::json!({"scopes": key.scopes, "by_tenant": by.tenant});
    audit::append(&mut tx, &by.key_id.to_string(), "key.create", &key.id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(CreatedKey { key: key.into(), text: text.reveal().to_owned() })
}
