//! SCIM tokens as their administrators see them.

use crate::token::SCIM_TOKENS;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::timestamp;
use unslide_store::KeyId;
use unslide_store::keys::{KeyFilter, KeyRecord, NewKey};
use utoipa::ToSchema;

/// A SCIM token to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewScimToken {
    /// The name of the token, for people.
    #[schema(min_length = 1, max_length = 200, example = "Okta")]
    pub name: String,
    /// When the token expires (RFC 3339); never if absent.
    #[serde(default, deserialize_with = "timestamp::deserialize")]
    pub expires_at: Option<OffsetDateTime>,
}

impl From<NewScimToken> for NewKey {
    fn from(new: NewScimToken) -> NewKey {
        NewKey { name: new.name, scopes: Vec::new(), apps: Vec::new(), expires_at: new.expires_at }
    }
}

/// A SCIM token, as its administrators see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ScimToken {
    /// The id of the token's row.
    #[serde(skip)]
    pub row: KeyId,
    /// Names the token in lists and logs: 8 hexadecimal digits of its SHA-256.
    #[schema(example = "5d1c02ab")]
    pub id: String,
    /// The name of the token, for people.
    pub name: String,
    /// When the token was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When the token expires; absent if it never does.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<OffsetDateTime>,
    /// When it was used last, give or take a minute.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<OffsetDateTime>,
}

impl From<KeyRecord> for ScimToken {
    fn from(record: KeyRecord) -> ScimToken {
        ScimToken {
            row: KeyId::from_uuid(record.id),
            id: record.prefix,
            name: record.name,
            created_at: record.created_at,
            expires_at: record.expires_at,
            last_used_at: record.last_used_at,
        }
    }
}

/// Returns the filter of lists: a token that was deleted is gone.
pub fn filter_tokens() -> KeyFilter<'static> {
    KeyFilter { without_revoked: true, ..KeyFilter::for_kind(&SCIM_TOKENS, None) }
}
