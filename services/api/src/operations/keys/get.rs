//! `GET /v1/key`.

use crate::operations::prelude::*;
use crate::requests::access::AnyKey;
use time::OffsetDateTime;
use unslide_model::{Scope, TenantId};
use unslide_store::Uuid;

problems!(Failures:);

/// The key of a request.
#[derive(Serialize, ToSchema)]
pub struct OwnKey {
    /// Id of the key that signed in this request.
    pub id: Uuid,
    /// The tenant that it belongs to.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// True if the tenant is suspended: its keys can read and delete, but not add or change.
    pub suspended: bool,
    /// Scopes that the key grants.
    #[schema(value_type = Vec<String>, max_items = 8)]
    pub scopes: Vec<Scope>,
    /// The only app (bundle identifier) that the key is valid for; `null` for all apps.
    pub app: Option<String>,
    /// When the key expires (RFC 3339); `null` if it never does.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
}

/// Describe the key of this request
///
/// Works with any key. `unslide doctor` uses it.
#[utoipa::path(get, path = "/v1/key", tag = "keys", operation_id = "get_key",
    responses((status = 200, description = "The key.", body = OwnKey), Failures),
    security(("key" = ["symbols:write"]), ("key" = ["symbols:read"]), ("key" = ["reports:write"]), ("key" = ["reports:read"]),
        ("key" = ["symbols:download"]), ("key" = ["groups:write"]), ("key" = ["tenant:admin"]), ("key" = ["operator"])))]
pub async fn get_key(access: Access<AnyKey>) -> Json<OwnKey> {
    let principal = access.principal;
    Json(OwnKey {
        id: principal.key_id,
        tenant: principal.tenant,
        suspended: !principal.active,
        scopes: principal.scopes,
        app: principal.app,
        expires_at: principal.expires_at,
    })
}
